#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::megatron_deepspeed {

/// What DeepSpeed's pipeline engine keeps of a stage: 4 P + 16 P / dp with fp16 at zero 1, 22 P at
/// zero 0, both when it reduces; 8 P + 12 P / dp with bf16.
std::vector<Holding> holdings();

/// Elements of the buffer in which a step's gradients are reduced: reduce_bucket_size.
std::int64_t bucket_elements(const Candidate& candidate);

}  // namespace planwright::targets::megatron_deepspeed
