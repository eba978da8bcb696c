#pragma once

#include "estimator/step_shape.h"
#include "estimator/tape_layers.h"

/// From the normed rows to the loss, as the version's model and loss function do it.
namespace planwright::estimator {

/// The narrow or wide logits, and what the model's caller holds of them while the loss is computed.
struct HfLogits {
  tape::Var logits;
  tape::Var held;
};

/// The head's product.
HfLogits hf_logits(tape::Graph& graph, const StepShape& shape, const tape::Var& normed);
/// The loss of them; what the caller held is gone when it returns.
tape::Var hf_loss(tape::Graph& graph, const StepShape& shape, HfLogits logits);

/// Both, chunk by chunk, with the gradients of both operands: the loss's backward makes nothing.
/// Source: linkedin/Liger-Kernel src/liger_kernel/ops/fused_linear_cross_entropy.py @ v0.3.0.
tape::Var hf_chunked_loss(tape::Graph& graph, const StepShape& shape, const tape::Var& normed);

}  // namespace planwright::estimator
