#pragma once

#include "cli/console.h"
#include "cli/setting.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"

namespace planwright::cli {

/// Writes the plan to the file that --save-plan names, for `emit --plan` and `probe --plan`. What
/// is there already and says something else is left alone, and an InputError, as is a server's
/// plan.
void save_plan(const Setting& file, const Problem& problem, const Candidate& candidate,
               const Console& console);

}  // namespace planwright::cli
