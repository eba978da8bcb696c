#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::fsdp {

/// What a script that shards with fully_shard, or not at all, cannot be told.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::fsdp
