#pragma once

#include "estimator/spec/json.h"
#include "estimator/spec/target_traits.h"

namespace planwright::targets::deepspeed {

/// The block `zero_optimization` of a plan. Everything that DeepSpeed's versions default
/// differently is there.
Json zero_optimization(const Candidate& candidate);

/// A whole configuration as deepspeed.initialize reads it.
Json configuration(const Problem& problem, const Candidate& candidate, bool probe);

/// DeepSpeed's name of the optimizer; empty if the user's script has to make it.
std::string optimizer_type(OptimizerKind kind);

}  // namespace planwright::targets::deepspeed
