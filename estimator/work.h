#pragma once

#include "estimator/quantities.h"
#include "estimator/step_shape.h"

/// Flops, bytes and launches of the parts of a micro-batch.
namespace planwright::estimator {

/// Pairs of query and key that a causal attention looks at in one sequence, counted once:
/// the sum over i of min(i, window).
double causal_pairs(std::int64_t seq, std::int64_t sliding_window);

// This rank's share of a block as the model has it.

Work block_forward_work(const StepShape& shape, const BlockSpec& block);
/// Of block_backward_work, what makes the gradients of weights.
Work block_weights_work(const StepShape& shape, const BlockSpec& block);
Work block_backward_work(const StepShape& shape, const BlockSpec& block);
/// Of attention's forward alone.
Work attention_work(const StepShape& shape, const BlockSpec& block);
/// A forward again, where results of operators are saved without these; without `output`, without
/// the projections that make it.
Work block_rebuild_work(const StepShape& shape, const BlockSpec& block, bool output);
/// Both directions.
Work embedding_work(const StepShape& shape);
/// Final norm, head and loss, both directions.
Work head_work(const StepShape& shape);

}  // namespace planwright::estimator
