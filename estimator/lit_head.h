#pragma once

#include <vector>

#include "estimator/step_shape.h"
#include "estimator/tape_layers.h"

/// From the normed rows to the loss, as litgpt's model and its loops do it.
namespace planwright::estimator {

/// Logits of so many rows of x each, in the type that is computed in. The gradients of the matrix
/// are added up before it gets them.
std::vector<tape::Var> lit_logits(tape::Graph& graph, const StepShape& shape, const tape::Var& x,
                                  const std::vector<std::int64_t>& rows);
/// The loss of fp32 logits, of all but the last row of each sequence where they come in chunks.
tape::Var lit_loss(tape::Graph& graph, const StepShape& shape, std::vector<tape::Var> logits);

}  // namespace planwright::estimator
