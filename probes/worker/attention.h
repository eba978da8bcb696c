#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "estimator/spec/model_spec.h"

namespace planwright::worker {

/// What causal attention leaves for its backward pass.
struct AttentionState {
  at::Tensor out;                 ///< [batch × seq, heads × head_dim]
  std::vector<at::Tensor> saved;  ///< the kernel's own: on a CPU the log-sum-exp
};

struct QkvGradients {
  at::Tensor q, k, v;  ///< [batch, heads, seq, head_dim] each, k and v with the key/value heads
};

/// Attention of each token to itself and those before it in its sequence. `qkv` is
/// [batch × seq, (heads + 2 kv_heads) head_dim]; key/value heads are shared, not expanded.
AttentionState attention_forward(const BlockSpec& block, const at::Tensor& qkv, std::int64_t batch);

/// The gradients in new storage of the activations account.
QkvGradients attention_backward(const BlockSpec& block, const at::Tensor& d_out,
                                const at::Tensor& qkv, const AttentionState& state,
                                std::int64_t batch);

/// [batch × seq, heads × head_dim] of packed rows as [batch, heads, seq, head_dim]: columns
/// `first_head` and on, without a copy.
at::Tensor heads_view(const at::Tensor& rows, std::int64_t first_head, std::int64_t heads,
                      std::int64_t head_dim, std::int64_t batch);

}  // namespace planwright::worker
