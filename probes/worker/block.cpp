#include "probes/worker/block.h"

#include <ATen/ops/empty_like.h>

#include <initializer_list>
#include <utility>

#include "probes/worker/attention_core.h"
#include "probes/worker/empty_rows.h"
#include "probes/worker/matmul.h"

namespace planwright::worker {
namespace {

at::Tensor norm(const BlockContext& c, const NormWeights& weights, const at::Tensor& x,
                at::Tensor& stats) {
  at::Tensor y = empty_rows(x, x.size(1));
  stats = empty_stats(weights, x.size(0), x);
  c.kernels.norm_forward(x, weights, y, stats);
  return y;
}

bool sequential(const BlockContext& c) { return c.spec.residual == Residual::sequential; }

/// Rows of this rank between the pairs of products.
DropMask hidden_mask(const BlockContext& c, DropSite site, const at::Tensor& x) {
  const std::int64_t width = x.size(1);
  return c.dropout.mask(site, c.layer, c.seq * width, c.tensor.first_row(c.batch * c.seq) * width);
}

/// residual + what dropout leaves of the products' sum.
at::Tensor project(const BlockContext& c, std::initializer_list<TensorParallel::Product> products,
                   DropSite site, const at::Tensor& residual) {
  if (c.dropout.hidden == 0) return c.tensor.project(products, residual, &residual);
  at::Tensor y = c.tensor.project(products, residual, nullptr);
  drop_and_add(y, hidden_mask(c, site, y), residual);
  return y;
}

/// The gradient of what `project` was given the products of: all rows.
at::Tensor branch_gradient(const BlockContext& c, DropSite site, const at::Tensor& dy) {
  if (c.dropout.hidden == 0) return c.tensor.gathered(dy);
  at::Tensor whole = c.tensor.sp() ? c.tensor.partial(dy) : at::empty_like(dy);
  drop(dy, hidden_mask(c, site, dy), c.tensor.own_rows(whole));
  c.tensor.gather(whole);
  return whole;
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

/// Gradients of all that belongs to a second product; its bias counts each row once.
void second_product_weight(const BlockContext& c, const at::Tensor& whole, const at::Tensor& input,
                           const LinearWeights& w, const LoraStates& lora) {
  weight_gradient(c.kernels, whole, input, w);
  bias_gradient(c.kernels, c.tensor.own_rows(whole), w);
  lora_weight_gradient(c.kernels, whole, input, w, lora);
}

/// Of a product's input; its adapters have no more to do.
void add_input_gradient(const at::Tensor& dy, const LinearWeights& w, LoraStates& lora,
                        const at::Tensor& d_input) {
  accumulate_input_gradient(dy, w, d_input);
  add_lora_input_gradient(lora, w, d_input);
  lora.clear();
}
void product_input_gradient(const at::Tensor& dy, const LinearWeights& w, LoraStates& lora,
                            const at::Tensor& d_input) {
  input_gradient(dy, w, d_input);
  add_lora_input_gradient(lora, w, d_input);
  lora.clear();
}

void down_backward(const BlockContext& c, BlockState& s, const at::Tensor& whole) {
  second_product_weight(c, whole, s.act, c.weights.down, s.lora_down);
  product_input_gradient(whole, c.weights.down, s.lora_down, s.act);
}

/// The gradient of attention's output, in new storage.
at::Tensor out_backward(const BlockContext& c, BlockState& s, const at::Tensor& whole) {
  second_product_weight(c, whole, s.attention.out, c.weights.out, s.lora_out);
  at::Tensor d_out = empty_rows(whole, s.attention.out.size(1));
  product_input_gradient(whole, c.weights.out, s.lora_out, d_out);
  return d_out;
}

/// Gradients of all that belongs to a first product.
void first_product_weight(const BlockContext& c, const at::Tensor& dy, const LinearWeights& w,
                          const LoraStates& lora, const at::Tensor& whole) {
  weight_gradient(c.kernels, dy, whole, w);
  bias_gradient(c.kernels, dy, w);
  lora_weight_gradient(c.kernels, dy, whole, w, lora);
}

/// The product before the block's first half or second half: its weight's gradient, and that of its
/// input n into n.
void product_backward(const BlockContext& c, const at::Tensor& dy, const LinearWeights& w,
                      LoraStates& lora, const at::Tensor& n) {
  const at::Tensor whole = c.tensor.gathered(n);
  first_product_weight(c, dy, w, lora, whole);
  product_input_gradient(dy, w, lora, whole);
  c.tensor.reduce(whole, n);
}

/// Of norm2 and the product behind it: dy += the gradient of the norm's input, which is `input`.
void up_backward(const BlockContext& c, BlockState& s, at::Tensor d_up, const at::Tensor& input,
                 const at::Tensor& dy) {
  product_backward(c, d_up, c.weights.up, s.lora_up, s.n2);
  d_up.reset();
  c.kernels.norm_backward(s.n2, input, s.stats2, c.weights.norm2, dy, true);
  s.n2.reset();
  s.stats2.reset();
}

void qkv_backward(const BlockContext& c, BlockState& s, const at::Tensor& x, const at::Tensor& dy) {
  product_backward(c, s.qkv, c.weights.qkv, s.lora_qkv, s.n1);
  s.qkv.reset();
  c.kernels.norm_backward(s.n1, x, s.stats1, c.weights.norm1, dy, true);
}

/// Both halves' first products have one input.
void shared_input_backward(const BlockContext& c, BlockState& s, at::Tensor d_up,
                           const at::Tensor& x, const at::Tensor& dy) {
  s.n2.reset();
  {
    const at::Tensor whole = c.tensor.gathered(s.n1);
    first_product_weight(c, d_up, c.weights.up, s.lora_up, whole);
    first_product_weight(c, s.qkv, c.weights.qkv, s.lora_qkv, whole);
    product_input_gradient(d_up, c.weights.up, s.lora_up, whole);
    add_input_gradient(s.qkv, c.weights.qkv, s.lora_qkv, whole);
    c.tensor.reduce(whole, s.n1);
  }
  d_up.reset();
  s.qkv.reset();
  c.kernels.norm_backward(s.n1, x, s.stats1, c.weights.norm1, dy, true);
}

void sequential_backward(const BlockContext& c, BlockState& s, const at::Tensor& x,
                         const at::Tensor& dy) {
  down_backward(c, s, branch_gradient(c, DropSite::mlp_output, dy));
  up_backward(c, s, activation_backward(c, s), s.x1, dy);
  s.x1.reset();
  if (c.recompute_core) core_again(c, s);
  at::Tensor d_out = out_backward(c, s, branch_gradient(c, DropSite::attention_output, dy));
  core_backward(c, s, std::move(d_out));
  qkv_backward(c, s, x, dy);
}

/// dy is what both halves' second products take: it is changed by the norms at the end only.
void parallel_backward(const BlockContext& c, BlockState& s, const at::Tensor& x,
                       const at::Tensor& dy) {
  if (c.recompute_core) core_again(c, s);
  at::Tensor d_out;
  {
    const at::Tensor whole = c.tensor.gathered(dy);
    down_backward(c, s, whole);
    d_out = out_backward(c, s, whole);
  }
  at::Tensor d_up = activation_backward(c, s);
  core_backward(c, s, std::move(d_out));
  if (c.spec.residual == Residual::parallel_shared) {
    return shared_input_backward(c, s, std::move(d_up), x, dy);
  }
  up_backward(c, s, std::move(d_up), x, dy);
  qkv_backward(c, s, x, dy);
}

}  // namespace

BlockState block_state(const BlockContext& c, const at::Tensor& x) {
  const BlockWeights& w = c.weights;
  BlockState s;
  s.n1 = norm(c, w.norm1, x, s.stats1);
  {
    const at::Tensor whole = c.tensor.gathered(s.n1);
    s.qkv = empty_rows(whole, w.qkv.weight.size(0));
    linear(whole, w.qkv, s.qkv);
    s.lora_qkv = lora_states(whole, w.qkv);
    add_lora(s.lora_qkv, w.qkv, s.qkv);
  }
  core_forward(c, s);
  s.lora_out = lora_states(s.attention.out, w.out);
  if (sequential(c)) {
    s.x1 = project(c, {{s.attention.out, w.out, s.lora_out}}, DropSite::attention_output, x);
  }

  if (c.spec.residual == Residual::parallel_shared) {
    s.n2 = s.n1;
  } else {
    s.n2 = norm(c, w.norm2, sequential(c) ? s.x1 : x, s.stats2);
  }
  {
    const at::Tensor whole = c.tensor.gathered(s.n2);
    s.up = empty_rows(whole, w.up.weight.size(0));
    linear(whole, w.up, s.up);
    s.lora_up = lora_states(whole, w.up);
    add_lora(s.lora_up, w.up, s.up);
  }
  s.act = empty_rows(s.up, c.spec.ffn);
  if (c.spec.mlp == MlpKind::gated) {
    c.kernels.gated_forward(c.spec.activation, s.up, s.act);
  } else {
    c.kernels.activation_forward(c.spec.activation, s.up, s.act);
  }
  s.lora_down = lora_states(s.act, w.down);
  return s;
}

at::Tensor block_output(const BlockContext& c, const BlockState& s, const at::Tensor& x) {
  const BlockWeights& w = c.weights;
  if (sequential(c)) return project(c, {{s.act, w.down, s.lora_down}}, DropSite::mlp_output, s.x1);
  return c.tensor.project({{s.attention.out, w.out, s.lora_out}, {s.act, w.down, s.lora_down}}, x,
                          &x);
}

void drop_recomputed(const BlockContext& c, BlockState& s) {
  if (c.recompute_core) s.attention = {};
}

// x is taken: nobody else keeps it.  NOLINTNEXTLINE(performance-unnecessary-value-param)
void block_backward(const BlockContext& c, BlockState s, at::Tensor x, const at::Tensor& dy) {
  if (sequential(c)) {
    sequential_backward(c, s, x, dy);
  } else {
    parallel_backward(c, s, x, dy);
  }
}

}  // namespace planwright::worker
