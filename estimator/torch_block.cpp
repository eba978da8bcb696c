#include "estimator/torch_block.h"

#include <utility>

namespace planwright::estimator {

using namespace tape;

void pass_on(Graph& graph, const StepShape& s, int results) {
  if (!s.saves_ops) return;
  graph.gradients ? graph.reuse_next(results) : graph.keep_next(results);
}

Var TensorGroup::gathered(const Var& local) const {
  Var whole = graph_.make("gathered", local.elements * s_.tp, local.type, Account::communication);
  return s_.batch > 1 ? graph_.make("cat", whole.elements, whole.type) : whole;
}

Var TensorGroup::summed(const Var& partial, bool saves) const {
  if (!s_.sp) return graph_.like("all_reduce", partial);
  const Var pieces = graph_.like("cat", partial);
  if (saves) pass_on(graph_, s_, 1);
  return graph_.make("scattered", partial.elements / s_.tp, partial.type);
}

Var TensorGroup::gather(const Var& local) const {
  if (s_.tp == 1) return local;
  Var whole = s_.sp ? gathered(local) : local;
  graph_.join({local}, {&whole},
              [*this](std::vector<Var> g) { return std::vector{summed(g[0], false)}; });
  return whole;
}

Var TensorGroup::reduce(const Var& partial, bool saves) const {
  if (s_.tp == 1) return partial;
  Var sum = summed(partial, saves);
  graph_.join({partial}, {&sum},
              [*this](std::vector<Var> g) { return std::vector{reduce_backward(g[0])}; });
  return sum;
}

Var TensorGroup::reduce_backward(const Var& gradient) const {
  return s_.sp ? gathered(gradient) : gradient;
}

Var TorchBlock::forward(const Var& x) {
  const Var h = add(graph_, x, attention(norm(x, s_.hidden)));
  return add(graph_, h, feed_forward(norm(h, s_.hidden)));
}

Var TorchBlock::norm(const Var& x, std::int64_t width) const {
  const std::int64_t rows = x.elements / width;
  const Weight weight{width, m_.norms};
  return b_.norm == NormKind::rms_norm ? rms_norm(graph_, x, weight, rows)
                                       : layer_norm(graph_, x, weight, rows);
}

/// Recomputation of single operators saves every other product. Source: torchtitan
/// distributed/activation_checkpoint.py, _apply_op_sac @ v0.2.2.
Var TorchBlock::product(const Var& x, std::int64_t inputs, std::int64_t outputs) {
  const DType compute = m_.autocast ? s_.compute : m_.weights;
  const Var input = to(graph_, x, compute);
  if (++products_ % 2 == 1) pass_on(graph_, s_, 1);
  const Matrix matrix{{inputs * outputs, m_.weights}, compute};
  return s_.product == DType::fp8 ? float8_linear(graph_, input, matrix, s_.tokens())
                                  : linear(graph_, input, matrix, s_.tokens());
}

Var TorchBlock::attention(const Var& normed) {
  const Var x = group_.gather(normed);
  const std::int64_t queries = b_.heads * b_.head_dim, keys = b_.kv_heads * b_.head_dim;
  Var q = product(x, s_.hidden, queries);
  Var k = product(x, s_.hidden, keys);
  const Var v = product(x, s_.hidden, keys);
  if (b_.qk_norm) {
    q = norm(q, b_.head_dim);
    k = norm(k, b_.head_dim);
  }
  if (s_.rotary) rotate(q, k);
  const Var out = attend(q, k, v);
  return group_.reduce(product(out, queries, s_.hidden), true);
}

/// apply_rotary_emb. A complex number is multiplied by one without gradients, which keeps nothing.
void TorchBlock::rotate(Var& q, Var& k) const {
  Var q_turned, k_turned;
  if (m_.complex_rotary) {
    const Var wide_q = to(graph_, q, DType::fp32), wide_k = to(graph_, k, DType::fp32);
    const Var q_out = scale(graph_, wide_q), k_out = scale(graph_, wide_k);
    q_turned = to(graph_, q_out, q.type);
    k_turned = to(graph_, k_out, k.type);
  } else {
    q_turned = rotary(graph_, q, q.type);
    k_turned = rotary(graph_, k, k.type);
  }
  q = std::move(q_turned);
  k = std::move(k_turned);
}

Var TorchBlock::attend(const Var& q, const Var& k, const Var& v) const {
  const DType type = m_.autocast ? s_.compute : q.type;
  const Var in_q = to(graph_, q, type), in_k = to(graph_, k, type), in_v = to(graph_, v, type);
  pass_on(graph_, s_, 2);
  return flash_attention(graph_, in_q, in_k, in_v,
                         {s_.batch, s_.seq, b_.heads, b_.kv_heads, b_.head_dim, m_.on_accelerator});
}

Var TorchBlock::feed_forward(const Var& normed) {
  const Var x = group_.gather(normed);
  return group_.reduce(product(inner(x), b_.ffn, s_.hidden), true);
}

Var TorchBlock::inner(const Var& x) {
  const Var gate = activation(product(x, s_.hidden, b_.ffn));
  if (b_.mlp != MlpKind::gated) return gate;
  return mul(graph_, gate, product(x, s_.hidden, b_.ffn));
}

Var TorchBlock::activation(const Var& x) const {
  return b_.activation == Activation::silu ? silu(graph_, x) : gelu(graph_, x);
}

}  // namespace planwright::estimator
