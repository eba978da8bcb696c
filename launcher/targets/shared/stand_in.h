#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets {

/// Traits of a framework that runs torch's operators under autograd, over gloo on CPUs and NCCL on
/// GPUs: its name and version, and what follows from that. Blocks are recomputed all or none, and
/// the collectives run beside the passes.
TargetTraits stand_in_traits(const std::string& name, const std::string& version);

/// `groups`, one behind the other.
std::vector<Rule> joined(const std::vector<std::vector<Rule>>& groups);

}  // namespace planwright::targets
