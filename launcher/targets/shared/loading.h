#pragma once

#include <string>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"
#include "launcher/target.h"

namespace planwright::targets {

/// What shards a model that from_pretrained has loaded.
enum class Sharder { none, fsdp, deepspeed };

/// Who loads them, and in which type.
std::string load_warning(const Problem& problem, Sharder sharder);

/// What loading takes of a node's memory: nothing where there is room for it.
std::vector<std::string> loading_warnings(const Problem& problem, const Candidate& candidate,
                                          Sharder sharder);

/// Of weights that are packed, that the script loads them so.
void warn_of_format(launcher::LaunchConfig& config, const Problem& problem);

}  // namespace planwright::targets
