#include "probes/worker/block.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "probes/worker/matmul.h"

namespace planwright::worker {
namespace {

at::Tensor empty_rows(const at::Tensor& like, std::int64_t width) {
  return at::empty({like.size(0), width}, like.options());
}

at::Tensor norm(const BlockContext& c, const NormWeights& weights, const at::Tensor& x,
                at::Tensor& stats) {
  at::Tensor y = empty_rows(x, x.size(1));
  stats = empty_stats(weights, x.size(0), accumulation_type(x.scalar_type()), x);
  c.kernels.norm_forward(x, weights, y, stats);
  return y;
}

void rotate(const BlockContext& c, const at::Tensor& qkv, bool inverse) {
  if (!c.rotary.cos.defined()) return;
  c.kernels.rotate(qkv, c.spec.heads + c.spec.kv_heads, c.rotary, inverse);
}

/// gate_up or up becomes its own gradient, in the storage that is returned.
at::Tensor activation_backward(const BlockContext& c, BlockState& s) {
  if (c.spec.mlp == MlpKind::gated) {
    c.kernels.gated_backward(c.spec.activation, s.up, s.act);
    s.act.reset();
    return std::move(s.up);
  }
  c.kernels.activation_backward(c.spec.activation, s.up, s.act);
  s.up.reset();
  return std::move(s.act);
}

/// The product before the block's first half or second half: its weight's gradient, and that of its
/// input n into n.
void product_backward(const BlockContext& c, const at::Tensor& dy, const LinearWeights& w,
                      const at::Tensor& n) {
  const at::Tensor whole = c.tensor.gathered(n);
  weight_gradient(c.kernels, dy, whole, w);
  c.tensor.input_gradient(dy, w, whole, n);
}

void mlp_backward(const BlockContext& c, BlockState& s, const at::Tensor& dy) {
  const BlockWeights& w = c.weights;
  {
    const at::Tensor whole = c.tensor.gathered(dy);
    weight_gradient(c.kernels, whole, s.act, {w.down.weight, w.down.weight_gradient, {}, {}});
    if (w.down.bias.defined()) c.kernels.bias_backward(dy, w.down.bias_gradient);
    input_gradient(whole, w.down, s.act);
  }
  at::Tensor d_up = activation_backward(c, s);
  product_backward(c, d_up, w.up, s.n2);
  d_up.reset();
  c.kernels.norm_backward(s.n2, s.x1, s.stats2, w.norm2, dy, true);
  s.n2.reset();
  s.stats2.reset();
  s.x1.reset();
}

/// The gradient of attention's output, in new storage.
at::Tensor projection_backward(const BlockContext& c, const BlockState& s, const at::Tensor& dy) {
  const LinearWeights& w = c.weights.out;
  const at::Tensor whole = c.tensor.gathered(dy);
  weight_gradient(c.kernels, whole, s.attention.out, {w.weight, w.weight_gradient, {}, {}});
  if (w.bias.defined()) c.kernels.bias_backward(dy, w.bias_gradient);
  at::Tensor d_out = empty_rows(whole, s.attention.out.size(1));
  input_gradient(whole, w, d_out);
  return d_out;
}

/// qkv becomes its own gradient.
void attention_core_backward(const BlockContext& c, BlockState& s, const at::Tensor& dy) {
  at::Tensor d_out = projection_backward(c, s, dy);
  const QkvGradients d = attention_backward(c.spec, d_out, s.qkv, s.attention, c.batch);
  d_out.reset();
  s.attention = {};
  const std::int64_t heads = c.spec.heads, kv = c.spec.kv_heads, dim = c.spec.head_dim;
  heads_view(s.qkv, 0, heads, dim, c.batch).copy_(d.q);
  heads_view(s.qkv, heads, kv, dim, c.batch).copy_(d.k);
  heads_view(s.qkv, heads + kv, kv, dim, c.batch).copy_(d.v);
}

}  // namespace

at::Tensor empty_stats(const NormWeights& norm, std::int64_t rows, at::ScalarType accumulation,
                       const at::Tensor& like) {
  const std::int64_t kinds = norm.kind == NormKind::layer_norm ? 2 : 1;
  return at::empty({kinds, rows}, like.options().dtype(accumulation));
}

BlockState block_state(const BlockContext& c, const at::Tensor& x) {
  const BlockWeights& w = c.weights;
  BlockState s;
  s.n1 = norm(c, w.norm1, x, s.stats1);
  {
    const at::Tensor whole = c.tensor.gathered(s.n1);
    s.qkv = empty_rows(whole, w.qkv.weight.size(0));
    linear(whole, w.qkv, s.qkv);
  }
  rotate(c, s.qkv, false);
  s.attention = attention_forward(c.spec, s.qkv, c.batch);
  s.x1 = c.tensor.project(s.attention.out, w.out, x);

  s.n2 = norm(c, w.norm2, s.x1, s.stats2);
  {
    const at::Tensor whole = c.tensor.gathered(s.n2);
    s.up = empty_rows(whole, w.up.weight.size(0));
    linear(whole, w.up, s.up);
  }
  s.act = empty_rows(s.up, c.spec.ffn);
  if (c.spec.mlp == MlpKind::gated) {
    c.kernels.gated_forward(c.spec.activation, s.up, s.act);
  } else {
    c.kernels.activation_forward(c.spec.activation, s.up, s.act);
  }
  return s;
}

at::Tensor block_output(const BlockContext& c, const BlockState& s) {
  return c.tensor.project(s.act, c.weights.down, s.x1);
}

// x is taken: nobody else keeps it.  NOLINTNEXTLINE(performance-unnecessary-value-param)
void block_backward(const BlockContext& c, BlockState s, at::Tensor x, const at::Tensor& dy) {
  const BlockWeights& w = c.weights;
  mlp_backward(c, s, dy);
  attention_core_backward(c, s, dy);
  rotate(c, s.qkv, true);
  product_backward(c, s.qkv, w.qkv, s.n1);
  s.qkv.reset();
  c.kernels.norm_backward(s.n1, x, s.stats1, w.norm1, dy, true);
}

}  // namespace planwright::worker
