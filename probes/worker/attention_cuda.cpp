#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include "probes/worker/attention.h"

// The library picks its kernel by type and shape, and only autograd knows the backward that belongs
// to it: a graph of this one operator is kept, which holds q, k and v as views of the packed rows.
namespace planwright::worker {
namespace {

at::Tensor leaf(const at::Tensor& view) { return view.detach().requires_grad_(true); }

}  // namespace

AttentionState attention_forward(const BlockSpec& block, const at::Tensor& qkv,
                                 std::int64_t batch) {
  const std::int64_t h = block.heads, kv = block.kv_heads, d = block.head_dim;
  const at::Tensor q = leaf(heads_view(qkv, 0, h, d, batch));
  const at::Tensor k = leaf(heads_view(qkv, h, kv, d, batch));
  const at::Tensor v = leaf(heads_view(qkv, h + kv, kv, d, batch));
  constexpr double kNoDropout = 0.0;
  constexpr bool kCausal = true;
  const bool grouped = h != kv;
  const at::Tensor out =
      at::scaled_dot_product_attention(q, k, v, {}, kNoDropout, kCausal, {}, grouped);
  return {out.detach().transpose(1, 2).reshape({qkv.size(0), h * d}), {out, q, k, v}};
}

QkvGradients attention_backward(const BlockSpec& block, const at::Tensor& d_out, const at::Tensor&,
                                const AttentionState& state, std::int64_t batch) {
  const auto& saved = state.saved;
  const at::Tensor d_heads = heads_view(d_out, 0, block.heads, block.head_dim, batch);
  const auto gradients =
      torch::autograd::grad({saved[0]}, {saved[1], saved[2], saved[3]}, {d_heads});
  return {gradients[0], gradients[1], gradients[2]};
}

}  // namespace planwright::worker
