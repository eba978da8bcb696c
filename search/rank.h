#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/price.h"
#include "estimator/quantities.h"
#include "estimator/spec/estimate.h"
#include "search/space.h"

namespace planwright::search {

/// Every legal candidate, priced and judged at the mean. Indices are into Space::legal.
///
/// All legal candidates of a problem work on the same tokens with the same devices, so the order by
/// tokens/s/device is the order by step time, which is what search compares throughout. Where the
/// global batch is not fixed, it is that of Space::comparable, which the figures have for it.
struct Ranking {
  std::vector<estimator::Figures> figures;  ///< by index
  std::vector<std::size_t> fits;            ///< fastest first
  std::vector<std::size_t> too_large;       ///< nearest to fitting first
  /// By reason: the rules of the space, and `too_large`.
  std::map<std::string, std::int64_t> dropped;
};

/// The quantities of each legal candidate, by index. No calibration in them: made once per space.
std::vector<estimator::Quantities> quantify(const Problem& problem, const TargetTraits& traits,
                                            const Space& space);

/// The figures of each legal candidate, by index: those of its quantities, which nobody keeps.
/// `threads` of them at work at once; what comes out does not depend on it.
std::vector<estimator::Figures> price_all(const Problem& problem, const TargetTraits& traits,
                                          const Space& space, const estimator::Pricer& pricer,
                                          unsigned threads);

/// Sorts. Exact and deterministic: equal figures keep the canonical order.
Ranking rank(const Space& space, std::vector<estimator::Figures> figures);
/// Prices and sorts.
Ranking rank(const Space& space, const std::vector<estimator::Quantities>& quantities,
             const estimator::Pricer& pricer);

/// From this probability of fitting on a plan counts as sure.
constexpr double kSure = 0.95;

/// Where the fastest plan may well not fit: the place in `fits` of the fastest one that is sure to,
/// or else of the surest, the fastest of them. nullopt if the fastest is sure, or as sure as any.
std::optional<std::size_t> surer_plan(const Ranking& ranking);

/// The estimate of the too large plan that is nearest to fitting; its reason names the account, the
/// shortfall and the smallest change that fits. nullopt if none is too large.
std::optional<Estimate> nearest_miss(const Space& space, const Ranking& ranking,
                                     const estimator::Pricer& pricer);

}  // namespace planwright::search
