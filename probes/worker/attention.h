#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "probes/worker/dropout.h"
#include "probes/worker/kernels.h"

/// Attention of each token to itself and those before it in its sequence.
namespace planwright::worker {

/// [batch, heads, seq, head_dim] each, k and v with the key/value heads, which are shared and not
/// expanded. Of queries, keys and values, or of their gradients.
struct Qkv {
  at::Tensor q, k, v;
};

/// What causal attention leaves for its backward pass.
struct AttentionState {
  at::Tensor out;                 ///< [batch × seq, heads × head_dim]
  std::vector<at::Tensor> saved;  ///< flash: the kernel's own, on a CPU the log-sum-exp; eager: the
                                  ///< weights [batch, heads, seq, seq]
};

/// The library's fused kernel.
AttentionState flash_forward(const Qkv& in);
/// The gradients in new storage of the activations account.
Qkv flash_backward(const at::Tensor& d_out, const Qkv& in, const AttentionState& state);

/// All weights in storage, made by products and kernels of our own.
struct EagerAttention {
  const Kernels& kernels;
  std::int64_t window = 0;  ///< as BlockSpec::sliding_window
  /// Of the first sequence's weights, and elements from one sequence's to the next one's.
  DropMask mask{};
  std::int64_t mask_stride = 0;
};
AttentionState eager_forward(const EagerAttention& how, const Qkv& in);
Qkv eager_backward(const EagerAttention& how, const at::Tensor& d_out, const Qkv& in,
                   const AttentionState& state);

/// [batch × seq, heads × head_dim] of packed rows as [batch, heads, seq, head_dim]: columns
/// `first_head` and on, without a copy.
at::Tensor heads_view(const at::Tensor& rows, std::int64_t first_head, std::int64_t heads,
                      std::int64_t head_dim, std::int64_t batch);

}  // namespace planwright::worker
