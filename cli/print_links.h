#pragma once

#include <string>
#include <vector>

#include "cli/problem_input.h"
#include "estimator/spec/json.h"

/// What an estimate takes for given: the device, and what ranks meet over.
namespace planwright::cli {

/// What was taken for what; of plans that offload, what memory their hosts have, and how fast it
/// is.
std::vector<std::string> assumptions(const ProblemInput& input, const Offload& offload);
/// A line of each; empty where there is none.
std::string assumed_text(const std::vector<std::string>& assumed);
/// A line of each link's bandwidth and where it is from; empty where there is one node.
std::string links_text(const ProblemInput& input);
/// The same of any cluster, for machines.
Json links_json(const ProblemInput& input);

}  // namespace planwright::cli
