#include "cli/legality.h"

#include <fmt/core.h>

#include "estimator/price.h"
#include "search/space.h"

namespace planwright::cli {

Estimate judge(const ProblemInput& input, const Candidate& candidate,
               const Calibration& calibration) {
  if (const auto broken = search::broken_rule(input.problem, input.traits(), candidate)) {
    Estimate estimate;
    estimate.verdict = Verdict::invalid;
    estimate.reason = fmt::format("{}; {}", broken->text, broken->fix);
    estimate.parameters = parameter_counts(input.problem.model);
    return estimate;
  }
  return estimator::estimate(input.problem, input.traits(), candidate, calibration);
}

}  // namespace planwright::cli
