#include "studies/best_trial.h"

#include <map>
#include <string>

#include "estimator/spec/candidate.h"

namespace planwright::studies {
namespace {

struct Seen {
  const Trial* longest = nullptr;
  bool ran_out = false;
};

bool ran_out_of_memory(const Outcome& outcome) {
  return outcome.kind() == OutcomeKind::out_of_memory ||
         outcome.kind() == OutcomeKind::host_out_of_memory;
}

double rate(const Trial& trial) {
  return trial.outcome.measurement()->tokens_per_second_per_device;
}

}  // namespace

const Trial* best_trial(const Problem& problem, const std::vector<Trial>& trials) {
  std::map<std::string, Seen> candidates;
  for (const Trial& trial : trials) {
    Seen& seen = candidates[candidate_hash(trial.candidate)];
    seen.ran_out = seen.ran_out || ran_out_of_memory(trial.outcome);
    const Measurement* measured = trial.outcome.measurement();
    if (measured == nullptr || measured->allocated_peak() > capacity(problem)) continue;
    if (seen.longest == nullptr || trial.scope.steps >= seen.longest->scope.steps) {
      seen.longest = &trial;
    }
  }
  const Trial* best = nullptr;
  for (const auto& [hash, seen] : candidates) {
    if (seen.longest == nullptr || seen.ran_out) continue;
    if (best == nullptr || rate(*seen.longest) > rate(*best)) best = seen.longest;
  }
  return best;
}

}  // namespace planwright::studies
