#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::megatron_deepspeed {

/// bf16 has an optimizer of its own, which sums in fp32 and shards its states whatever the stage.
bool has_bf16_optimizer(const Problem& problem);

/// What pretrain_gpt.py with DeepSpeed's pipeline engine cannot be told.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::megatron_deepspeed
