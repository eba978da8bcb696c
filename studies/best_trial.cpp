#include "studies/best_trial.h"

#include <map>
#include <string>

#include "estimator/spec/candidate.h"
#include "estimator/spec/fastest_first.h"

namespace planwright::studies {
namespace {

struct Seen {
  const Trial* first = nullptr;
  const Trial* longest = nullptr;
  bool ran_out = false;
};

bool ran_out_of_memory(const Outcome& outcome) {
  return outcome.kind() == OutcomeKind::out_of_memory ||
         outcome.kind() == OutcomeKind::host_out_of_memory;
}

Timing timing(const Trial& trial) {
  const double rate = trial.outcome.measurement()->tokens_per_second_per_device;
  return {1 / rate, static_cast<std::size_t>(trial.number)};
}

}  // namespace

const Trial* best_trial(const Problem& problem, const std::vector<Trial>& trials) {
  std::map<std::string, Seen> candidates;
  for (const Trial& trial : trials) {
    Seen& seen = candidates[candidate_hash(trial.candidate)];
    seen.ran_out = seen.ran_out || ran_out_of_memory(trial.outcome);
    const Measurement* measured = trial.outcome.measurement();
    if (measured == nullptr || measured->allocated_peak() > capacity(problem)) continue;
    if (seen.first == nullptr) seen.first = &trial;
    if (seen.longest == nullptr || trial.scope.steps >= seen.longest->scope.steps) {
      seen.longest = &trial;
    }
  }
  std::vector<const Trial*> measured;
  std::vector<Timed> timed;
  for (const auto& [hash, seen] : candidates) {
    if (seen.longest == nullptr || seen.ran_out) continue;
    measured.push_back(seen.longest);
    timed.push_back({timing(*seen.first), std::nullopt});
    const bool again = seen.longest->scope.steps > seen.first->scope.steps;
    if (again) timed.back().again = timing(*seen.longest);
  }
  return measured.empty() ? nullptr : measured[fastest_first(timed).front()];
}

}  // namespace planwright::studies
