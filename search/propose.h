#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "estimator/price.h"
#include "estimator/spec/outcome.h"
#include "search/evidence.h"
#include "search/prune.h"
#include "search/rank.h"

namespace planwright::search {

/// What an untried candidate promises against the best measured time.
struct Promise {
  double improvement = 0;  ///< E[max(0, ln(best / time))] times the probability of fitting: a
                           ///< fraction of the best throughput, for the small values that matter
  double chance = 0;       ///< of fitting and beating the best by more than the margin
};

/// ln(time) is normal with the figures' mean and spread. That spread is the posterior's, which has
/// seen the best one's own trial: what the two share through the coefficients is learned already,
/// and what no coefficient explains is each candidate's own. So the best measured time is a
/// constant here, and no covariance with it is left to subtract.
Promise promise(const estimator::Figures& figures, Seconds best_time, double margin);

/// What a probe takes on average: starting it, and its steps if it fits.
Seconds expected_duration(const estimator::Figures& figures, const ProbeScope& scope);

/// What to probe next, and why.
struct Choice {
  std::size_t index = 0;  ///< into Space::legal
  ProbeScope scope;
  std::string why;
  double improvement = 0;
};

/// The next of the kept candidates; nullopt if there is none. As long as nothing is measured: the
/// fastest of those that are likelier to fit than not (the likeliest to fit if none is). Then the
/// highest improvement per expected second. One that failed before counts half, and only after the
/// others as long as nothing is measured. Scores that are exactly equal are told apart by `seed`: 0
/// takes the first in canonical order, another seed a fixed shuffle of its own.
std::optional<Choice> propose(const Ranking& ranking, const Evidence& evidence,
                              const Pruned& pruned, const ProbeScope& scope, std::uint64_t seed);

}  // namespace planwright::search
