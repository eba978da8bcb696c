#pragma once

#include "estimator/spec/json.h"
#include "estimator/spec/target_traits.h"

namespace planwright::targets::deepspeed {

/// The block `zero_optimization` of a plan. Everything that DeepSpeed's versions default
/// differently is there.
Json zero_optimization(const Problem& problem, const Candidate& candidate);

/// Elements that DeepSpeed's buffers for weights on a disk have room for if nobody says, each of
/// one rank's part of a weight. Source: deepspeedai/DeepSpeed
/// deepspeed/runtime/zero/offload_config.py
/// @ 0.19.8.
constexpr std::int64_t kUsualBuffer = 100'000'000;
/// Those of the largest weight's part.
std::int64_t largest_part(const ModelSpec& model, const Candidate& candidate);

/// A whole configuration as deepspeed.initialize reads it.
Json configuration(const Problem& problem, const Candidate& candidate, bool probe);

/// DeepSpeed's name of the optimizer; empty if the user's script has to make it.
std::string optimizer_type(OptimizerKind kind);

}  // namespace planwright::targets::deepspeed
