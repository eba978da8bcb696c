#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "search/evidence.h"
#include "search/rank.h"

namespace planwright::search {

/// Below this probability of fitting a candidate is dropped.
constexpr double kSmallestFitProbability = 0.01;
/// A candidate is dropped if a time this many deviations below its mean does not beat the best
/// measured one. `time_rel` is the deviation of the time's logarithm.
constexpr double kOptimism = 2.0;

/// The untried candidates of one round, and why the others are out of it: `too_large` and
/// `cannot_win` by the model, `out_of_memory` and `failed` (as often as allowed) as measured.
/// Measured candidates are neither kept nor dropped.
struct Pruned {
  std::vector<std::size_t> kept;  ///< indices into Space::legal, in canonical order
  std::map<std::string, std::int64_t> dropped;
};

/// Judges every candidate anew: nothing is remembered from one round to the next, because early
/// the model is wrong by tens of percent.
Pruned prune(const Ranking& ranking, const Evidence& evidence);

/// The two rules of the model, for one candidate.
bool hardly_fits(const estimator::Figures& figures);
bool cannot_win(const estimator::Figures& figures, Seconds best_time);

}  // namespace planwright::search
