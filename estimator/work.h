#pragma once

#include "estimator/quantities.h"
#include "estimator/step_script.h"

/// Flops, bytes and launches of the parts of a micro-batch.
namespace planwright::estimator {

/// Pairs of query and key that a causal attention looks at in one sequence, counted once:
/// the sum over i of min(i, window).
double causal_pairs(std::int64_t seq, std::int64_t sliding_window);

Work block_forward_work(const StepShape& shape, const BlockSpec& block);
Work block_backward_work(const StepShape& shape, const BlockSpec& block);
/// A forward without its last projection, which backward does not need.
Work block_recompute_work(const StepShape& shape, const BlockSpec& block);
/// Embeddings, final norm, head and loss, both directions.
Work ends_work(const StepShape& shape, const ModelSpec& model);

}  // namespace planwright::estimator
