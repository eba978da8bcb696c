#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "estimator/price.h"
#include "estimator/spec/trial.h"
#include "search/rank.h"
#include "search/space.h"
#include "tests/support/fake_traits.h"

/// Figures and trials by hand, for decisions that need no estimator.
namespace planwright::testing {

using search::Ranking;
using search::Space;

inline estimator::Figures figures(double step_time, double time_rel, double fit_probability) {
  estimator::Figures made;
  made.step_time = Seconds{step_time};
  made.time_rel = time_rel;
  made.fit_probability = fit_probability;
  made.fits = fit_probability >= 0.5;
  return made;
}

inline Ranking ranking_of(const std::vector<estimator::Figures>& each) {
  Ranking ranking;
  ranking.figures = each;
  return ranking;
}

/// `n` candidates that differ in their micro-batch.
inline Space space_of(int n) {
  Space space;
  for (int i = 0; i < n; ++i) space.legal.push_back(data_parallel(2, 0, i + 1));
  space.counted = n;
  return space;
}

inline Trial ended(const Space& space, std::size_t index, OutcomeKind kind) {
  Trial trial;
  trial.candidate = space.legal[index];
  if (kind == OutcomeKind::out_of_memory) {
    trial.outcome.value = OutOfMemory{};
  } else {
    trial.outcome.value = Failure{kind, "", "", std::nullopt};
  }
  return trial;
}

inline Trial measured(const Space& space, std::size_t index, double step_time, int steps = 3,
                      double scatter = 0) {
  Trial trial;
  trial.candidate = space.legal[index];
  trial.scope.steps = steps;
  Measurement measurement;
  measurement.step_time_s = step_time;
  for (int i = 0; i < steps; ++i) {
    measurement.steps_s.push_back(step_time * std::exp(scatter * (i % 3 - 1)));
  }
  trial.outcome.value = measurement;
  return trial;
}

}  // namespace planwright::testing
