#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/autograd.h>

#include "probes/worker/attention.h"

// The library picks its kernel by type and shape, and only autograd knows the backward that belongs
// to it: a graph of this one operator is kept, which holds q, k and v as views of the packed rows.
namespace planwright::worker {
namespace {

at::Tensor leaf(const at::Tensor& view) { return view.detach().requires_grad_(true); }

}  // namespace

AttentionState flash_forward(const Qkv& in) {
  const at::Tensor q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  constexpr double kNoDropout = 0.0;
  constexpr bool kCausal = true;
  const bool grouped = q.size(1) != k.size(1);
  const at::Tensor out =
      at::scaled_dot_product_attention(q, k, v, {}, kNoDropout, kCausal, {}, grouped);
  const std::int64_t rows = q.size(0) * q.size(2);
  return {out.detach().transpose(1, 2).reshape({rows, q.size(1) * q.size(3)}), {out, q, k, v}};
}

Qkv flash_backward(const at::Tensor& d_out, const Qkv& in, const AttentionState& state) {
  const auto& saved = state.saved;
  const at::Tensor d_heads = heads_view(d_out, 0, in.q.size(1), in.q.size(3), in.q.size(0));
  const auto gradients =
      torch::autograd::grad({saved[0]}, {saved[1], saved[2], saved[3]}, {d_heads});
  return {gradients[0], gradients[1], gradients[2]};
}

}  // namespace planwright::worker
