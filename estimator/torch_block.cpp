#include "estimator/torch_block.h"

#include <utility>

#include "estimator/torch_ring.h"

namespace planwright::estimator {

using namespace tape;

namespace {

/// Source: torchtitan models/norms.py, RMSNorm @ 9dec370. Torch's own, before its kernel,
/// multiplies by the weight before it narrows: aten/src/ATen/native/layer_norm.cpp, rms_norm @
/// v2.8.0.
Var composed_rms_norm(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows) {
  Var wide;
  {
    const Var in = to(graph, x, DType::fp32);
    const Var variance = mean(graph, square(graph, in), rows);
    const Var root = rsqrt(graph, add(graph, variance, Var{1, DType::fp32}));
    wide = mul(graph, in, root);
  }
  const Var narrow = to(graph, std::exchange(wide, {}), x.type);
  return mul(graph, weight, narrow);
}

/// The compiler's kernel for activation and product, whose backward makes both again. Source:
/// pytorch torch/_functorch/partitioners.py, min_cut_rematerialization_partition @ v2.11.0.
Var compiled_gate(Graph& graph, const Var& gate, const Var& up) {
  Var y = graph.like("gated", gate);
  graph.join({gate, up}, {&y},
             [&graph, kept_gate = saved(gate), kept_up = saved(up)](const std::vector<Var>&) {
               Var d_gate = graph.like("d_gate", kept_gate);
               return std::vector{std::move(d_gate), graph.like("d_up", kept_up)};
             });
  return y;
}

}  // namespace

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
  const auto mixed = [this](const Var& normed) {
    return b_.latent ? latent_attention(normed) : attention(normed);
  };
  const auto inner_of = [this](const Var& normed) {
    return b_.moe ? moe(normed) : feed_forward(normed);
  };
  const Var h = add(graph_, x, mixed(norm(x, s_.hidden)));
  return add(graph_, h, inner_of(norm(h, s_.hidden)));
}

Var TorchBlock::norm(const Var& x, std::int64_t width) const {
  const std::int64_t rows = x.elements / width;
  const Weight weight{width, m_.norms};
  if (b_.norm != NormKind::rms_norm) return layer_norm(graph_, x, weight, rows);
  const bool composed = m_.composed_norms && !m_.compiled_blocks;
  return composed ? composed_rms_norm(graph_, x, weight, rows) : rms_norm(graph_, x, weight, rows);
}

/// Recomputation of single operators saves every other product, which the compiler leaves out where
/// no backward has use for it. Sources: torchtitan distributed/activation_checkpoint.py,
/// _apply_op_sac @ v0.2.2; pytorch torch/_functorch/partitioners.py,
/// min_cut_rematerialization_partition @ v2.11.0.
void TorchBlock::count_product(Use use) {
  const bool kept = ++products_ % 2 == 1;
  if (kept && !(m_.compiled_blocks && use == Use::nothing)) pass_on(graph_, s_, 1);
}

Var TorchBlock::product(const Var& x, std::int64_t inputs, std::int64_t outputs, Use use) {
  const DType compute = m_.autocast ? s_.compute : m_.weights;
  const Var input = to(graph_, x, compute);
  count_product(use);
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

/// Source: models/deepseek_v3/model/model.py @ v0.2.2. Of the queries and of the one key that all
/// heads share a part is turned, and put beside the rest in a copy.
Var TorchBlock::latent_attention(const Var& normed) {
  const LatentSpec& l = *b_.latent;
  const std::int64_t rows = s_.tokens(), head = l.nope_dim + l.rope_dim;
  const std::vector<Var> table = looked_up(l.rope_dim);
  const auto with_positions = [&](const Var& rest, const Var& part, std::int64_t times) {
    const Var turned = turned_pairs(part, table);
    return cat(graph_, {rest, times > 1 ? repeat(graph_, turned, times) : turned});
  };
  Var q = product(normed, s_.hidden, l.q_rank > 0 ? l.q_rank : b_.heads * head);
  if (l.q_rank > 0) q = product(norm(q, l.q_rank), l.q_rank, b_.heads * head);
  {
    const auto parts = split(graph_, std::exchange(q, {}),
                             {rows * b_.heads * l.nope_dim, rows * b_.heads * l.rope_dim});
    q = with_positions(parts[0], parts[1], 1);
  }
  const auto down = split(graph_, product(normed, s_.hidden, l.kv_rank + l.rope_dim),
                          {rows * l.kv_rank, rows * l.rope_dim});
  const Var up =
      product(norm(down[0], l.kv_rank), l.kv_rank, b_.heads * (l.nope_dim + l.value_dim));
  const auto parts =
      split(graph_, up, {rows * b_.heads * l.nope_dim, rows * b_.heads * l.value_dim});
  const Var k = with_positions(parts[0], down[1], b_.heads);
  return product(attend(q, k, parts[1]), b_.heads * l.value_dim, s_.hidden);
}

/// Where ranks have parts of a sequence, each block looks its positions' numbers up: cosines and
/// sines, of pairs or of each element. Source: reshape_for_broadcast of the same files.
std::vector<Var> TorchBlock::looked_up(std::int64_t width) const {
  const std::int64_t table = s_.tokens() * width;
  if (s_.cp == 1) return {};
  if (m_.complex_rotary) return {graph_.make("positions", table, DType::fp32)};
  const Var wide = graph_.make("positions", 2 * table, DType::fp32);
  return {graph_.make("cos", table, m_.stream), graph_.make("sin", table, m_.stream)};
}

/// A complex number is multiplied by one without gradients, which alone is kept.
Var TorchBlock::turned_pairs(const Var& x, const std::vector<Var>& table) const {
  Var turned = to(graph_, scale(graph_, to(graph_, x, DType::fp32)), x.type);
  if (table.empty()) return turned;
  graph_.join({turned}, {&turned}, [table](std::vector<Var> g) { return g; });
  return turned;
}

/// apply_rotary_emb.
void TorchBlock::rotate(Var& q, Var& k) const {
  const std::vector<Var> table = looked_up(b_.head_dim);
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
  for (Var* turned : {&q_turned, &k_turned}) {
    if (table.empty()) break;
    graph_.join({*turned}, {turned}, [table](std::vector<Var> g) { return g; });
  }
  q = std::move(q_turned);
  k = std::move(k_turned);
}

Var TorchBlock::attend(const Var& q, const Var& k, const Var& v) const {
  const DType type = m_.autocast ? s_.compute : q.type;
  const Var in_q = to(graph_, q, type), in_k = to(graph_, k, type), in_v = to(graph_, v, type);
  pass_on(graph_, s_, 2);
  Heads heads{.batch = s_.batch,
              .seq = s_.seq / s_.cp,
              .heads = b_.heads,
              .kv_heads = b_.kv_heads,
              .width = b_.head_dim,
              .sums_apart = m_.on_accelerator};
  if (b_.latent) {
    heads.width = b_.latent->nope_dim + b_.latent->rope_dim;
    heads.value_width = b_.latent->value_dim;
    heads.kv_heads = heads.heads;
  }
  return s_.cp > 1 ? ring_attention(graph_, in_q, in_k, in_v, heads, s_.cp)
                   : flash_attention(graph_, in_q, in_k, in_v, heads);
}

Var TorchBlock::feed_forward(const Var& normed) {
  const Var x = group_.gather(normed);
  const bool saves = !m_.compiled_blocks;
  return group_.reduce(product(inner(x, b_.ffn), b_.ffn, s_.hidden, Use::nothing), saves);
}

Var TorchBlock::inner(const Var& x, std::int64_t width) {
  if (m_.compiled_blocks && b_.mlp == MlpKind::gated) {
    const Var gate = product(x, s_.hidden, width);
    return compiled_gate(graph_, gate, product(x, s_.hidden, width));
  }
  Var gate = activation(product(x, s_.hidden, width));
  if (b_.mlp != MlpKind::gated) return gate;
  return mul(graph_, gate, product(x, s_.hidden, width));
}

Var TorchBlock::activation(const Var& x) const {
  return b_.activation == Activation::silu ? silu(graph_, x) : gelu(graph_, x);
}

}  // namespace planwright::estimator
