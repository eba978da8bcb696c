#pragma once

#include <ATen/core/Tensor.h>

#include "probes/worker/block.h"

/// What is between a block's qkv and its attention projection: norms of heads, rotary positions,
/// attention.
namespace planwright::worker {

/// Makes attention's output and what its backward wants, from the state's qkv.
void core_forward(const BlockContext& context, BlockState& state);

/// Makes attention's part of it again, which was dropped.
void core_again(const BlockContext& context, BlockState& state);

/// The state's qkv becomes its own gradient; all else of the core is released.
void core_backward(const BlockContext& context, BlockState& state, at::Tensor d_out);

}  // namespace planwright::worker
