#pragma once

#include "estimator/liveness.h"
#include "estimator/step_shape.h"

/// docs/runtime.md, "One block", as data: a block's forward and backward on one rank.
namespace planwright::estimator {

/// What a block leaves of its forward for its backward.
enum class Keep { state, nothing };

// Blocks are given as the model has them; the scripts take this rank's share. `x` is not theirs.

/// Makes y.
Script block_forward(const StepShape& shape, const BlockSpec& block, Keep keep);
/// Makes the state again, and y only with `output`.
Script block_rebuild(const StepShape& shape, const BlockSpec& block, bool output);
/// Drops the state and x; dy becomes dx.
Script block_backward(const StepShape& shape, const BlockSpec& block);

}  // namespace planwright::estimator
