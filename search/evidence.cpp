#include "search/evidence.h"

#include <algorithm>

namespace planwright::search {
namespace {

bool covers(const ProbeScope& measured, const ProbeScope& asked) {
  return measured.kind == asked.kind && measured.steps >= asked.steps;
}

void note(Seen& seen, const std::vector<Trial>& history, std::size_t number,
          const ProbeScope& scope) {
  const Trial& trial = history[number];
  switch (trial.outcome.kind()) {
    case OutcomeKind::ok:
      if (covers(trial.scope, scope) &&
          (!seen.measured || trial.scope.steps >= history[*seen.measured].scope.steps)) {
        seen.measured = number;
      }
      return;
    case OutcomeKind::out_of_memory:
    case OutcomeKind::host_out_of_memory:
      ++seen.out_of_memory;
      return;
    default:
      ++seen.failed;
  }
}

}  // namespace

Evidence gather(const Space& space, const std::vector<Trial>& history, const ProbeScope& scope) {
  Evidence evidence;
  evidence.seen.resize(space.legal.size());
  for (std::size_t number = 0; number < history.size(); ++number) {
    const auto found = std::find(space.legal.begin(), space.legal.end(), history[number].candidate);
    if (found == space.legal.end()) continue;
    note(evidence.seen[static_cast<std::size_t>(found - space.legal.begin())], history, number,
         scope);
  }
  const auto time = [&](std::size_t candidate) {
    const Trial& trial = history[*evidence.seen[candidate].measured];
    return space.comparable(candidate, trial.outcome.measurement()->step_time_s);
  };
  for (std::size_t i = 0; i < space.legal.size(); ++i) {
    Seen& seen = evidence.seen[i];
    if (seen.out_of_memory > 0) seen.measured.reset();
    if (seen.measured) evidence.measured.push_back(i);
  }
  std::stable_sort(evidence.measured.begin(), evidence.measured.end(),
                   [&](std::size_t a, std::size_t b) { return time(a) < time(b); });
  if (!evidence.measured.empty()) evidence.best_time = Seconds{time(evidence.measured.front())};
  return evidence;
}

bool untried(const Seen& seen) {
  return !seen.measured && seen.out_of_memory == 0 && seen.failed < kFailuresAllowed;
}

}  // namespace planwright::search
