#include "estimator/te_block.h"

#include <utility>

#include "estimator/tape_layers.h"

namespace planwright::estimator::tape {
namespace {

TensorRanks ranks_of(const StepShape& shape, std::int64_t count, bool sp) {
  return {.count = count,
          .sp = sp,
          .makes_wgrad = !shape.te.sums_wgrad,
          .fp8 = fp8_of(shape.te.fp8, shape.capability)};
}

/// What somebody else keeps as it came, products in 8 bits keep as well: attention's output, and
/// what the router and the shared expert take. Scales of earlier steps are for one copy each.
/// Source: attention.py, moe/shared_experts.py, set_save_original_input.
bool keeps_shared_inputs(const Fp8& fp8) { return fp8.any() && fp8.recipe != Fp8Recipe::delayed; }

}  // namespace

TeBlock::TeBlock(Graph& graph, const StepShape& shape)
    : graph_(graph),
      s_(shape),
      ranks_(ranks_of(shape, shape.tp, shape.sp)),
      alone_(ranks_of(shape, 1, false)),
      keeping_(ranks_.keeping_input(keeps_shared_inputs(ranks_.fp8))),
      rows_(shape.local_tokens()),
      whole_(shape.tokens()) {}

Var TeBlock::forward(const Var& x, const BlockSpec& share) const {
  const bool dropout = s_.hidden_dropout;
  Var input = x;
  const Group attn_norm = graph_.enter(share.latent && offloaded().attn_norm, input);
  const Var mixed =
      share.latent ? latent_attention(input, share, attn_norm) : attention(input, share);
  const Var x1 = te_add(graph_, mixed, x, dropout);
  graph_.commit(attn_norm, {x});
  Var inner = x1;
  const Group mlp_norm = graph_.enter(share.moe && offloaded().mlp_norm, inner);
  Var y = te_add(graph_, share.moe ? moe(inner, share, mlp_norm) : mlp(inner, share), x1, dropout);
  graph_.commit(mlp_norm, {x1});
  return y;
}

/// attention.py, SelfAttention. Rotary positions leave tensors of their own, and so do norms of
/// heads (--qk-layernorm), which take and keep copies; of three views of one tensor, cuDNN takes
/// those that alternate head by head as they lie.
Var TeBlock::attention(const Var& x, const BlockSpec& share) const {
  const std::int64_t queries = whole_ * share.heads * share.head_dim;
  const std::int64_t keys = whole_ * share.kv_heads * share.head_dim;
  Var input = x;
  const Group qkv_linear = graph_.enter(offloaded().qkv_linear, input);
  const Var mixed = te_norm_linear(graph_, input, {share.norm, rows_},
                                   (share.heads + 2 * share.kv_heads) * share.head_dim, ranks_);
  std::vector<Var> parts = split(graph_, mixed, {queries, keys, keys});
  graph_.exit(qkv_linear);
  graph_.commit(qkv_linear, {});
  const bool grouped = share.heads > share.kv_heads, normed = share.qk_norm;
  if (grouped || normed) parts[0] = copy(graph_, parts[0]);
  if (normed || (grouped && !s_.rotary)) parts[1] = copy(graph_, parts[1]);
  for (const std::size_t i : {0U, 1U}) {
    const std::int64_t heads = whole_ * (i == 0 ? share.heads : share.kv_heads);
    if (normed) parts[i] = te_norm(graph_, parts[i], {share.norm, heads});
    if (s_.rotary) parts[i] = te_rotate(graph_, parts[i]);
  }
  if (grouped || normed || s_.rotary) parts[2] = copy(graph_, parts[2]);
  const Var out = core_attention({.q = std::move(parts[0]),
                                  .k = std::move(parts[1]),
                                  .v = std::move(parts[2]),
                                  .queries = whole_ * share.heads,
                                  .keys = s_.seq});
  return projection(out);
}

Var TeBlock::projection(Var x) const {
  const Var input = x;
  const Group attn_proj = graph_.enter(offloaded().attn_proj, x);
  Var y = te_row_linear(graph_, std::exchange(x, {}), whole_, s_.hidden, keeping_);
  graph_.exit(attn_proj);
  graph_.commit(attn_proj, {input});
  return y;
}

/// What a product in 8 bits takes as it came, if it is not kept for others: its own copy of what is
/// made again would be kept in its place. Source: transformer_layer.py, moe/experts.py,
/// set_save_original_input.
TensorRanks TeBlock::behind(bool made_again, const TensorRanks& ranks) const {
  return ranks.keeping_input(made_again && ranks.fp8.any());
}

WithoutOutput TeBlock::norm(const Var& x, NormKind kind) const {
  return {graph_, again().layernorm, {x}, [this_block = *this, kind](const std::vector<Var>& in) {
            return std::vector{te_norm(this_block.graph_, in[0], {kind, this_block.rows_})};
          }};
}

/// multi_latent_attention.py, MLASelfAttention: the latent vectors are made on every rank.
Var TeBlock::latent_attention(const Var& x, const BlockSpec& share, Group attn_norm) const {
  WithoutOutput input_norm = norm(x, share.norm);
  Var normed = input_norm.take().front();
  graph_.exit(attn_norm);
  const Var input = normed;
  const Group qkv_linear = graph_.enter(offloaded().qkv_linear, normed);
  WithoutOutput up(graph_, again().mla_up_proj, latent_vectors(normed, *share.latent),
                   [this_block = *this, share](const std::vector<Var>& latent) {
                     return this_block.lead_up(latent, share);
                   });
  std::vector<Var> heads = up.take();
  graph_.exit(qkv_linear);
  graph_.commit(qkv_linear, {input});
  Var out = core_attention({.q = std::move(heads[0]),
                            .k = std::move(heads[1]),
                            .v = std::move(heads[2]),
                            .queries = whole_ * share.heads,
                            .keys = s_.seq});
  up.discard(out);
  Var y = projection(std::move(out));
  input_norm.discard(y);
  return y;
}

/// Of queries, or what they are made from at once, and of keys and values.
std::vector<Var> TeBlock::latent_vectors(const Var& normed, const LatentSpec& l) const {
  const TensorRanks ranks = behind(again().layernorm, alone_);
  Var q = l.q_rank > 0 ? te_linear(graph_, normed, rows_, l.q_rank, ranks) : normed;
  const Var down = te_linear(graph_, normed, rows_, l.kv_rank + l.rope_dim, ranks);
  const std::vector<Var> parts = split(graph_, down, {rows_ * l.kv_rank, rows_ * l.rope_dim});
  return {std::move(q), copy(graph_, parts[0])};
}

/// Norms before the products that lead up from the latent vectors, and positions.
std::vector<Var> TeBlock::lead_up(const std::vector<Var>& latent, const BlockSpec& share) const {
  const LatentSpec& l = *share.latent;
  const std::int64_t head = l.nope_dim + l.rope_dim, width = share.heads * head;
  const auto up = [&](const Var& from, std::int64_t to) {
    return te_norm_linear(graph_, from, {NormKind::rms_norm, rows_}, to, ranks_);
  };
  Var q = l.q_rank > 0
              ? up(latent[0], width)
              : te_linear(graph_, latent[0], rows_, width, behind(again().layernorm, ranks_));
  const Var kv = up(latent[1], share.heads * (l.nope_dim + l.value_dim));
  const std::vector<Var> parts =
      split(graph_, kv, {whole_ * share.heads * l.nope_dim, whole_ * share.heads * l.value_dim});
  std::vector<Var> made;
  made.push_back(te_move(graph_, std::exchange(q, {}), whole_ * width));
  made.push_back(te_move(graph_, parts[0], whole_ * width));
  made.push_back(copy(graph_, parts[1]));
  return made;
}

/// Made again, what it gives is kept by the product behind it. Source: attention.py,
/// _checkpointed_attention_forward.
Var TeBlock::core_attention(Qkv qkv) const {
  std::vector<Var> inputs;
  if (offloaded().core_attn) inputs = {qkv.q, qkv.k, qkv.v};
  const Group core_attn = graph_.enter(offloaded().core_attn, qkv.q);
  const auto kernel = [this_block = *this, queries = qkv.queries,
                       keys = qkv.keys](const std::vector<Var>& in) {
    return std::vector{this_block.attention_kernel(
        {.q = in[0], .k = in[1], .v = in[2], .queries = queries, .keys = keys})};
  };
  Var out = again().core_attn ? checkpointed(graph_, true, {qkv.q, qkv.k, qkv.v}, kernel).front()
                              : attention_kernel(std::move(qkv));
  graph_.exit(core_attn);
  graph_.commit(core_attn, inputs);
  return out;
}

/// Transformer Engine's choice: flash-attn before compute capability 9.0, cuDNN from there on, but
/// where its results must repeat on 9.x only. Source:
/// pytorch/attention/dot_product_attention/utils.py, get_attention_backend @ v2.11.
Var TeBlock::attention_kernel(Qkv qkv) const {
  if (s_.attention == AttentionKernel::eager) {
    return te_unfused_attention(graph_, qkv, s_.attention_dropout);
  }
  if (s_.cp > 1 && s_.exchange == Exchange::ring) {
    return te_ring_attention(graph_, qkv, s_.cp);
  }
  if (s_.cp > 1) return te_exchanged_attention(graph_, std::move(qkv));
  const bool repeats = !s_.te.deterministic || s_.capability < 10;
  if (s_.capability > 0 && (s_.capability < 9 || !repeats))
    return te_flash_attention(graph_, std::move(qkv));
  return te_fused_attention(graph_, qkv);
}

/// mlp.py.
Var TeBlock::mlp(const Var& x, const BlockSpec& share) const {
  const bool gated = share.mlp == MlpKind::gated;
  const std::int64_t width = (gated ? 2 : 1) * share.ffn;
  const Norm norm{share.norm, rows_};
  return checkpointed(graph_, again().mlp, x, [=, this_block = *this](const Var& in) {
    Graph& graph = this_block.graph_;
    Var inner = te_norm_linear(graph, in, norm, width, this_block.ranks_);
    inner = te_activation(graph, inner, gated);
    return te_row_linear(graph, inner, this_block.whole_, this_block.s_.hidden, this_block.ranks_);
  });
}

/// moe/moe_layer.py.
Var TeBlock::moe(const Var& x, const BlockSpec& share, Group mlp_norm) const {
  WithoutOutput pre_mlp_norm = norm(x, share.norm);
  const Var normed = pre_mlp_norm.take().front();
  graph_.exit(mlp_norm);
  Var out = checkpointed(graph_, again().moe, normed, [this_block = *this, share](const Var& in) {
    return this_block.shared_and_routed(in, share);
  });
  pre_mlp_norm.discard(out);
  return out;
}

Var TeBlock::shared_and_routed(const Var& normed, const BlockSpec& share) const {
  if (share.moe->shared_ffn == 0) return routed(normed, share);
  const Var shared = checkpointed(
      graph_, again().shared_experts, normed,
      [this_block = *this, share](const Var& in) { return this_block.shared_expert(in, share); });
  return te_add(graph_, shared, routed(normed, share), false);
}

Var TeBlock::shared_expert(const Var& normed, const BlockSpec& share) const {
  const bool gated = share.mlp == MlpKind::gated;
  const std::int64_t width = (gated ? 2 : 1) * share.moe->shared_ffn / s_.tp;
  Var inner = te_linear(graph_, normed, rows_, width, keeping_);
  inner = te_activation(graph_, inner, gated);
  return te_row_linear(graph_, inner, whole_, s_.hidden, ranks_);
}

/// moe/router.py, whose product keeps its input. Of each token and expert it keeps its logit, its
/// score and its probability in fp32 and a byte.
Var TeBlock::routed(const Var& x, const BlockSpec& share) const {
  const Var scores = graph_.make("scores", rows_ * share.moe->experts * 13, DType::fp8);
  Var y = s_.te.gathers_tokens ? gathered(x, share) : sent(x, share);
  graph_.join({y}, {&y}, [scores, kept = saved(x)](std::vector<Var> g) { return g; });
  return y;
}

/// moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher, as every expert gets as many tokens: what
/// it sends it also gets. TransformerEngine pytorch/permutation.py keeps two places of 4 bytes.
Var TeBlock::sent(const Var& x, const BlockSpec& share) const {
  const MoeSpec& m = *share.moe;
  const std::int64_t h = s_.hidden, sent = rows_ * m.top_k, here = m.experts / s_.ep;
  const std::int64_t rows = sent * s_.etp;
  Var tokens = te_move(graph_, x, sent * h, rows_ * (2 * m.experts + 1) * 4);
  if (s_.ep > 1) tokens = te_move(graph_, tokens, sent * h);
  if (s_.etp > 1) tokens = te_move(graph_, tokens, rows * h);
  if (here > 1) tokens = te_move(graph_, tokens, rows * h);
  tokens = experts(tokens, share, rows);
  if (here > 1) tokens = te_move(graph_, tokens, rows * h);
  if (s_.etp > 1) tokens = te_move(graph_, tokens, sent * h);
  if (s_.ep > 1) tokens = te_move(graph_, tokens, sent * h);
  return te_move(graph_, tokens, x.elements);
}

/// The same file, MoEAllGatherTokenDispatcher: of all tokens those for the own experts are taken,
/// and their results put back among zeros, of which all ranks' are summed.
Var TeBlock::gathered(const Var& x, const BlockSpec& share) const {
  const MoeSpec& m = *share.moe;
  const std::int64_t here = m.experts / s_.ep, ranks = s_.ep * s_.etp;
  const std::int64_t rows = rows_ * m.top_k * s_.etp;
  const Var all = te_gather(graph_, x, ranks);
  const std::int64_t map = rows_ * ranks * here, places = 8 * rows;
  Var tokens = te_move(graph_, all, rows * s_.hidden, map + places);
  tokens = experts(tokens, share, rows);
  if (!s_.te.groups_experts && here > 1) tokens = copy(graph_, tokens);
  tokens = te_put_back(graph_, tokens, all.elements, s_.te.deterministic);
  return te_scatter(graph_, tokens, ranks);
}

/// moe/experts.py, TEGroupedMLP. In 8 bits each expert's rows are copied to where they start at a
/// multiple of what products take, and back; the few that are added are not counted.
Var TeBlock::experts(const Var& tokens, const BlockSpec& share, std::int64_t rows) const {
  const std::int64_t width = share.moe->ffn / s_.etp;
  const bool gated = share.mlp == MlpKind::gated;
  const bool pads = alone_.fp8.any();
  const Var whole = pads ? te_move(graph_, tokens, tokens.elements) : tokens;
  Var input = whole;
  const Group expert_fc1 = graph_.enter(offloaded().expert_fc1, input);
  Var inner = te_linear(graph_, std::exchange(input, {}), rows, (gated ? 2 : 1) * width, alone_);
  graph_.exit(expert_fc1);
  graph_.commit(expert_fc1, {whole});
  const Var first = offloaded().moe_act ? inner : Var{};
  const Group moe_act = graph_.enter(offloaded().moe_act, inner);
  const Var probabilities = graph_.make("probabilities", rows, DType::fp32);
  WithoutOutput activation(graph_, again().moe_act, {inner, probabilities},
                           [this_block = *this, gated](const std::vector<Var>& in) {
                             return std::vector{this_block.activated(in[0], gated, in[1])};
                           });
  inner = activation.take().front();
  graph_.exit(moe_act);
  Var y = te_linear(graph_, inner, rows, s_.hidden, behind(again().moe_act, alone_));
  activation.discard(y);
  graph_.commit(moe_act, {first});
  return pads ? te_move(graph_, y, y.elements) : y;
}

Var TeBlock::activated(const Var& x, bool gated, const Var& probabilities) const {
  if (gated) return te_activation(graph_, x, true, probabilities);
  return te_weigh(graph_, te_activation(graph_, x, false), probabilities);
}

}  // namespace planwright::estimator::tape
