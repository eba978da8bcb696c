#pragma once

#include "cli/console.h"
#include "cli/problem_input.h"
#include "estimator/spec/calibration.h"

namespace planwright::cli {

/// Whether the host's rates are worth measuring.
enum class Benchmark {
  if_known,  ///< rates of an earlier run only: estimate and plan start nothing
  run,       ///< measured now if they never were, unless --no-benchmark
};

/// What is believed before the first probe.
Calibration read_prior(const ProblemInput& input, const Settings& settings, Benchmark benchmark,
                       const Console& console);

}  // namespace planwright::cli
