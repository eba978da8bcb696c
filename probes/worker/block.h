#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "estimator/spec/candidate.h"
#include "estimator/spec/model_spec.h"
#include "probes/worker/attention.h"
#include "probes/worker/dropout.h"
#include "probes/worker/kernels.h"
#include "probes/worker/lora.h"
#include "probes/worker/tensor_parallel.h"
#include "probes/worker/weights.h"

namespace planwright::worker {

/// This rank's share of one block and the micro-batch it works on. Refers to what it is made from.
struct BlockContext {
  BlockSpec spec;          ///< tensor_share of the model's
  std::int64_t layer = 0;  ///< of the model
  const BlockWeights& weights;
  const RotaryTables& rotary;
  const Kernels& kernels;
  const TensorParallel& tensor;
  AttentionKernel attention = AttentionKernel::flash;
  bool recompute_core = false;
  const Dropout& dropout;
  std::int64_t batch = 0;  ///< sequences
  std::int64_t seq = 0;
};

/// What a block's forward leaves for its backward, its input and output not included.
struct BlockState {
  at::Tensor n1, stats1, qkv;
  at::Tensor qk, qk_stats;  ///< normed queries and keys side by side, if the block norms them
  AttentionState attention;
  at::Tensor x1;          ///< of a sequential block
  at::Tensor n2, stats2;  ///< n2 is n1 with one norm for both halves
  at::Tensor up;          ///< gate and up side by side if the block is gated
  at::Tensor act;
  LoraStates lora_qkv, lora_out, lora_up, lora_down;
};

/// The block up to what makes its output. Allocates in the order of docs/runtime.md.
BlockState block_state(const BlockContext& context, const at::Tensor& x);

/// The block's output, in new storage.
at::Tensor block_output(const BlockContext& context, const BlockState& state, const at::Tensor& x);

/// Drops what its backward makes again, if it does.
void drop_recomputed(const BlockContext& context, BlockState& state);

/// dy becomes the gradient of x in place; weight gradients are added up. Consumes state and x, each
/// tensor of them as soon as it is not needed any more.
void block_backward(const BlockContext& context, BlockState state, at::Tensor x,
                    const at::Tensor& dy);

}  // namespace planwright::worker
