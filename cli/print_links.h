#pragma once

#include <string>

#include "cli/problem_input.h"
#include "estimator/spec/json.h"

/// What an estimate takes for given: the device, and what ranks meet over.
namespace planwright::cli {

/// A line of what was taken for what; empty where every name is a device's own.
std::string assumed_text(const ProblemInput& input);
/// A line of each link's bandwidth and where it is from; empty where there is one node.
std::string links_text(const ProblemInput& input);
/// The same of any cluster, for machines.
Json links_json(const ProblemInput& input);

}  // namespace planwright::cli
