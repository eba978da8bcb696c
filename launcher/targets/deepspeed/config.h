#pragma once

#include <cstdint>
#include <optional>

#include "estimator/spec/json.h"
#include "estimator/spec/target_traits.h"

namespace planwright::targets::deepspeed {

/// The block `zero_optimization` of a plan. Everything that DeepSpeed's versions default
/// differently is there.
Json zero_optimization(const Problem& problem, const Candidate& candidate);

/// Elements that its buffers for weights on a disk have room for if nobody says. Source:
/// deepspeedai/DeepSpeed deepspeed/runtime/zero/offload_config.py @ 0.19.8.
constexpr std::int64_t kUsualBuffer = 100'000'000;
/// Those of one rank's part of the largest weight, where weights go to a disk and they are more.
std::optional<std::int64_t> larger_buffer(const ModelSpec& model, const Candidate& candidate);

/// A whole configuration as deepspeed.initialize reads it.
Json configuration(const Problem& problem, const Candidate& candidate, bool probe);

/// DeepSpeed's name of the optimizer; empty if the user's script has to make it.
std::string optimizer_type(OptimizerKind kind);

}  // namespace planwright::targets::deepspeed
