#pragma once

#include <cstdint>

#include "estimator/liveness.h"
#include "estimator/step_shape.h"

/// What single kernels allocate and release, by kernel set: docs/runtime.md, "One micro-batch" and
/// "Kernel sets". Each function appends its kernel to the script.
namespace planwright::estimator {

void product(Script& script, const StepShape& shape, const char* name);
/// Gradient of a weight [n, m] of a linear layer.
void weight_gradient(Script& script, const StepShape& shape, const char* name, std::int64_t n,
                     std::int64_t m);
/// Of n outputs, over `rows` tokens.
void bias_gradient(Script& script, const StepShape& shape, std::int64_t rows, std::int64_t n);
/// Of this rank's share of the heads.
void attention_forward(Script& script, const StepShape& shape, const BlockSpec& share);
void attention_backward(Script& script, const StepShape& shape, const BlockSpec& share);
/// Of the eager kernel: scores become weights; the gradient of weights becomes that of scores.
void causal_softmax(Script& script, const StepShape& shape, const BlockSpec& share);
void softmax_backward(Script& script, const StepShape& shape, const BlockSpec& share);

/// Norms of `rows` rows of `width` elements.
struct NormRows {
  NormKind kind;
  std::int64_t rows, width;
};
/// Of this rank's tokens.
NormRows hidden_norm(const StepShape& shape, NormKind kind);
void norm_forward(Script& script, const StepShape& shape, const NormRows& norm);
void norm_backward(Script& script, const StepShape& shape, const NormRows& norm);
/// Over `width` elements of every token's row.
void rotate(Script& script, const StepShape& shape, std::int64_t width);
void gated_backward(Script& script, const StepShape& shape, std::int64_t ffn);
/// Of `rows` rows of logits.
void cross_entropy(Script& script, const StepShape& shape, std::int64_t rows);
void embed(Script& script, const StepShape& shape);
void embed_backward(Script& script, const StepShape& shape);
void positions_backward(Script& script, const StepShape& shape);

/// Workspace of the attention kernels, of this rank's share of the heads.
std::int64_t attention_forward_workspace(const StepShape& shape, const BlockSpec& share);
std::int64_t attention_backward_workspace(const StepShape& shape, const BlockSpec& share);

}  // namespace planwright::estimator
