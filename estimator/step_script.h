#pragma once

#include <cstdint>

#include "estimator/block_script.h"
#include "estimator/liveness.h"
#include "estimator/step_shape.h"

/// docs/runtime.md as data: what a micro-batch does before its first block and after its last one,
/// on one rank.
namespace planwright::estimator {

/// Makes x from ids.
Script embedding_forward(const StepShape& shape);
/// Drops neither dy nor ids.
Script embedding_backward(const StepShape& shape);
/// The final norm.
Script head_forward(const StepShape& shape, NormKind norm);
/// Logits of `rows` tokens, the loss, and the head's backward, which drops them.
Script head_product(const StepShape& shape, std::int64_t rows);
Script loss(const StepShape& shape, std::int64_t rows);
Script head_product_backward(const StepShape& shape, std::int64_t rows);
/// Drops what the head made and the last block's output; leaves dy.
Script head_backward(const StepShape& shape, NormKind norm);

}  // namespace planwright::estimator
