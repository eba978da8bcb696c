#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/spec/outcome.h"
#include "estimator/spec/trial.h"
#include "search/space.h"

namespace planwright::search {

/// What has been seen of one candidate.
struct Seen {
  /// The trial that counts, by its index in the history: the one with the most measured steps, the
  /// latest of equals. Absent if it ever ran out of memory: such a plan is not one to hand over.
  std::optional<std::size_t> measured;
  std::optional<std::size_t> first;  ///< the first that was measured; `measured` if it is the only
  int out_of_memory = 0;             ///< on the device or on its host
  int failed = 0;                    ///< crashed, hung, timed out, environment
};

/// The history, arranged by the candidates of a space.
struct Evidence {
  std::vector<Seen> seen;             ///< by index into Space::legal
  std::vector<std::size_t> measured;  ///< fastest_first(); equals in canonical order
  std::optional<Seconds> best_time;   ///< Space::comparable of the first of them
};

/// A failure may be the world's fault, so a candidate that failed gets one more chance.
constexpr int kFailuresAllowed = 2;

/// Trials of candidates outside the space, and measurements of another kind of scope or over fewer
/// steps than `scope` asks for, teach the calibration but are not seen here.
Evidence gather(const Space& space, const std::vector<Trial>& history, const ProbeScope& scope);

/// Whether a probe of it may still tell something new: it was neither measured nor found too large,
/// and did not fail kFailuresAllowed times.
bool untried(const Seen& seen);

/// Whether it was measured again, over more steps than at first.
bool measured_again(const Seen& seen, const std::vector<Trial>& history);

}  // namespace planwright::search
