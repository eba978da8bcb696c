#pragma once

#include "cli/problem_input.h"
#include "estimator/spec/calibration.h"
#include "estimator/spec/estimate.h"

namespace planwright::cli {

/// The estimate of a candidate that a person gave: `invalid`, with the rule's text and fix as its
/// reason, if it breaks one of the general rules or of the target's own.
Estimate judge(const ProblemInput& input, const Candidate& candidate,
               const Calibration& calibration);

}  // namespace planwright::cli
