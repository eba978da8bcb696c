#pragma once

#include <string>

#include "cli/problem_input.h"
#include "estimator/spec/json.h"

/// What an estimate takes the ranks to meet over.
namespace planwright::cli {

/// A line of each link's bandwidth and where it is from; empty where there is one node.
std::string links_text(const ProblemInput& input);
/// The same of any cluster, for machines.
Json links_json(const ProblemInput& input);

}  // namespace planwright::cli
