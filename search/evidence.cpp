#include "search/evidence.h"

#include <algorithm>

#include "estimator/spec/fastest_first.h"

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
      if (!covers(trial.scope, scope)) return;
      if (!seen.first) seen.first = number;
      if (!seen.measured || trial.scope.steps >= history[*seen.measured].scope.steps) {
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
  for (std::size_t i = 0; i < space.legal.size(); ++i) {
    Seen& seen = evidence.seen[i];
    if (seen.out_of_memory > 0) seen.measured.reset();
    if (seen.measured) evidence.measured.push_back(i);
  }
  const auto timing = [&](std::size_t candidate, std::size_t trial) {
    const double step = history[trial].outcome.measurement()->step_time_s;
    return Timing{space.comparable(candidate, step), trial};
  };
  std::vector<Timed> timed;
  for (const std::size_t i : evidence.measured) {
    const Seen& seen = evidence.seen[i];
    timed.push_back({timing(i, *seen.first), std::nullopt});
    if (measured_again(seen, history)) timed.back().again = timing(i, *seen.measured);
  }
  std::vector<std::size_t> sorted;
  for (const std::size_t place : fastest_first(timed)) sorted.push_back(evidence.measured[place]);
  evidence.measured = std::move(sorted);
  if (!evidence.measured.empty()) {
    const std::size_t best = evidence.measured.front();
    evidence.best_time = Seconds{timing(best, *evidence.seen[best].measured).time};
  }
  return evidence;
}

bool measured_again(const Seen& seen, const std::vector<Trial>& history) {
  return history[*seen.measured].scope.steps > history[*seen.first].scope.steps;
}

bool untried(const Seen& seen) {
  return !seen.measured && seen.out_of_memory == 0 && seen.failed < kFailuresAllowed;
}

}  // namespace planwright::search
