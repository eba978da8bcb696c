#pragma once

#include "cli/problem_input.h"
#include "cli/settings.h"
#include "estimator/spec/estimate.h"
#include "search/space.h"

/// What the target command's user is told of the axes that the command names, and does not.
namespace planwright::cli {

/// An InputError for a command that every plan would start in the same words.
void require_named_axes(const Settings& settings, const ProblemInput& input);

/// Where a plan is not legal for an axis that the command does not name: says so, in the place of
/// the rule's fix. Of other targets nothing changes.
void explain_unnamed(const ProblemInput& input, search::Space& space);
void explain_unnamed(const ProblemInput& input, const Candidate& candidate, Estimate& estimate);

}  // namespace planwright::cli
