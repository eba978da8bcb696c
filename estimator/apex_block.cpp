#include "estimator/apex_block.h"

#include <utility>

#include "estimator/tape_layers.h"

namespace planwright::estimator::tape {

/// ParallelTransformerLayer.forward: biases of the products out of a half are added with dropout.
Var ApexBlock::forward(const Var& x, const BlockSpec& share) const {
  const Var mixed = attention(norm(x, share.norm), share);
  const Var x1 = te_add(graph_, mixed, x, s_.hidden_dropout);
  const Var inner = mlp(norm(x1, share.norm), share);
  return te_add(graph_, inner, x1, s_.hidden_dropout);
}

Var ApexBlock::norm(const Var& x, NormKind kind) const {
  if (kind == NormKind::rms_norm) return te_norm(graph_, x, {kind, rows_});
  return layer_norm(graph_, x, {s_.hidden, s_.compute, true}, rows_);
}

Var ApexBlock::product(const Var& x, std::int64_t outputs, bool bias) const {
  const Weight weight{outputs * (x.elements / rows_), s_.compute, true};
  return linear(graph_, x, Matrix{weight, s_.compute, bias}, rows_);
}

/// Queries, keys and values are views of one product.
Var ApexBlock::attention(const Var& x, const BlockSpec& share) const {
  const std::int64_t queries = share.heads * share.head_dim;
  const std::int64_t keys = share.kv_heads * share.head_dim;
  const Var mixed = product(x, queries + 2 * keys, share.qkv_bias);
  std::vector<Var> parts = split(graph_, mixed, {rows_ * queries, rows_ * keys, rows_ * keys});
  for (std::size_t i = 0; i < 2 && s_.rotary; ++i) parts[i] = te_rotate(graph_, parts[i]);
  for (std::size_t i = 1; i < 3; ++i) {
    parts[i] = repeat(graph_, parts[i], share.heads / share.kv_heads);
  }
  const Var out = core_attention({.q = std::move(parts[0]),
                                  .k = std::move(parts[1]),
                                  .v = std::move(parts[2]),
                                  .queries = rows_ * share.heads,
                                  .keys = s_.seq});
  return product(out, s_.hidden, false);
}

Var ApexBlock::core_attention(Qkv qkv) const {
  if (s_.attention == AttentionKernel::flash) return te_flash_attention(graph_, std::move(qkv));
  return unfused(qkv);
}

/// baddbmm has a tensor to add to, of which it takes nothing. Scores stay until the function ends.
Var ApexBlock::unfused(const Qkv& qkv) const {
  const std::int64_t all = qkv.queries * qkv.keys;
  Var empty = graph_.make("empty", all, qkv.q.type);
  const Var scores = batched_product(graph_, qkv.q, qkv.k, all);
  empty = {};
  Var weights = softmax(graph_, scores, scores.type);
  if (s_.attention_dropout) weights = dropout(graph_, weights);
  return copy(graph_, batched_product(graph_, weights, qkv.v, qkv.q.elements));
}

Var ApexBlock::mlp(const Var& x, const BlockSpec& share) const {
  const bool gated = share.mlp == MlpKind::gated;
  const Var inner = product(x, (gated ? 2 : 1) * share.ffn, share.mlp_bias);
  return product(te_activation(graph_, inner, gated), s_.hidden, false);
}

}  // namespace planwright::estimator::tape
