#pragma once

#include "estimator/spec/estimate.h"
#include "estimator/spec/problem.h"

/// Of a model that nobody knows an estimate is its stand-in's, until measurements have corrected
/// it.
namespace planwright::estimator {

/// Deviation of a logarithm, a factor of e either way, from which on a figure says nothing. A
/// stand-in's is three before the first measurement, by priors.csv.
constexpr double kSaysNothing = 1.0;

inline bool memory_is_known(const Problem& problem, const Estimate& estimate) {
  return !problem.model.stand_in || estimate.memory_rel < kSaysNothing;
}

inline bool time_is_known(const Problem& problem, const Estimate& estimate) {
  return !problem.model.stand_in || estimate.time_rel < kSaysNothing;
}

}  // namespace planwright::estimator
