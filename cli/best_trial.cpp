#include "cli/best_trial.h"

#include <map>
#include <string>

#include "estimator/spec/candidate.h"

namespace planwright::cli {

const Trial* best_trial(const Problem& problem, const std::vector<Trial>& trials) {
  std::map<std::string, const Trial*> counts;
  for (const Trial& trial : trials) {
    const Measurement* measured = trial.outcome.measurement();
    if (measured == nullptr || measured->allocated_peak() > capacity(problem)) continue;
    const Trial*& kept = counts[candidate_hash(trial.candidate)];
    if (kept == nullptr || trial.scope.steps >= kept->scope.steps) kept = &trial;
  }
  const Trial* best = nullptr;
  for (const auto& [hash, trial] : counts) {
    const auto rate = [](const Trial& each) {
      return each.outcome.measurement()->tokens_per_second_per_device;
    };
    if (best == nullptr || rate(*trial) > rate(*best)) best = trial;
  }
  return best;
}

}  // namespace planwright::cli
