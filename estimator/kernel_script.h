#pragma once

#include <cstdint>

#include "estimator/liveness.h"
#include "estimator/step_script.h"

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
/// Over this rank's tokens.
void norm_forward(Script& script, const StepShape& shape, NormKind norm);
void norm_backward(Script& script, const StepShape& shape, NormKind norm);
/// Over `width` elements of every token's row.
void rotate(Script& script, const StepShape& shape, std::int64_t width);
void gated_backward(Script& script, const StepShape& shape, std::int64_t ffn);
void cross_entropy(Script& script, const StepShape& shape);
void embed(Script& script, const StepShape& shape);
void embed_backward(Script& script, const StepShape& shape);
void positions_backward(Script& script, const StepShape& shape);

}  // namespace planwright::estimator
