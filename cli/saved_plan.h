#pragma once

#include "cli/console.h"
#include "cli/setting.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"

namespace planwright::cli {

/// Before anything is computed: an InputError unless a plan of the problem can be kept in the file
/// that --save-plan names. It cannot where the path is no file's, where something else is there
/// already, and of a server, which has no plan.
void require_savable(const Setting& file, const Problem& problem);

/// Writes the plan to that file, for `emit --plan` and `probe --plan`. Another plan that is there
/// already is left alone, and an InputError.
void save_plan(const Setting& file, const Problem& problem, const Candidate& candidate,
               const Console& console);

}  // namespace planwright::cli
