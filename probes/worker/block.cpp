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

void mlp_backward(const BlockContext& c, BlockState& s, const at::Tensor& dy) {
  const BlockWeights& w = c.weights;
  weight_gradient(c.kernels, dy, s.act, w.down);
  input_gradient(dy, w.down, s.act);
  at::Tensor d_up;
  if (c.spec.mlp == MlpKind::gated) {
    c.kernels.gated_backward(c.spec.activation, s.up, s.act);
    d_up = std::move(s.up);
    s.act.reset();
  } else {
    c.kernels.activation_backward(c.spec.activation, s.up, s.act);
    d_up = std::move(s.act);
    s.up.reset();
  }
  weight_gradient(c.kernels, d_up, s.n2, w.up);
  input_gradient(d_up, w.up, s.n2);
  d_up.reset();
  c.kernels.norm_backward(s.n2, s.x1, s.stats2, w.norm2, dy, true);
  s.n2.reset();
  s.stats2.reset();
  s.x1.reset();
}

/// qkv becomes its own gradient.
void attention_core_backward(const BlockContext& c, BlockState& s, const at::Tensor& dy) {
  at::Tensor d_out = empty_rows(dy, s.attention.out.size(1));
  input_gradient(dy, c.weights.out, d_out);
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
  s.qkv = empty_rows(x, w.qkv.weight.size(0));
  linear(s.n1, w.qkv, s.qkv);
  rotate(c, s.qkv, false);
  s.attention = attention_forward(c.spec, s.qkv, c.batch);
  s.x1 = empty_rows(x, x.size(1));
  linear_add(s.attention.out, w.out, x, s.x1);

  s.n2 = norm(c, w.norm2, s.x1, s.stats2);
  s.up = empty_rows(x, w.up.weight.size(0));
  linear(s.n2, w.up, s.up);
  s.act = empty_rows(x, c.spec.ffn);
  if (c.spec.mlp == MlpKind::gated) {
    c.kernels.gated_forward(c.spec.activation, s.up, s.act);
  } else {
    c.kernels.activation_forward(c.spec.activation, s.up, s.act);
  }
  return s;
}

at::Tensor block_output(const BlockContext& c, const BlockState& s) {
  at::Tensor y = empty_rows(s.x1, s.x1.size(1));
  linear_add(s.act, c.weights.down, s.x1, y);
  return y;
}

// x is taken: nobody else keeps it.  NOLINTNEXTLINE(performance-unnecessary-value-param)
void block_backward(const BlockContext& c, BlockState s, at::Tensor x, const at::Tensor& dy) {
  const BlockWeights& w = c.weights;
  mlp_backward(c, s, dy);
  weight_gradient(c.kernels, dy, s.attention.out, w.out);
  attention_core_backward(c, s, dy);
  rotate(c, s.qkv, true);
  weight_gradient(c.kernels, s.qkv, s.n1, w.qkv);
  input_gradient(s.qkv, w.qkv, s.n1);
  s.qkv.reset();
  c.kernels.norm_backward(s.n1, x, s.stats1, w.norm1, dy, true);
}

}  // namespace planwright::worker
