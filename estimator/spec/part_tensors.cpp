#include <string>
#include <utility>

#include "estimator/spec/model_part.h"

namespace planwright {
namespace {

/// Adds a part's tensors one after the other.
class PartBuilder {
 public:
  PartBuilder(const ModelSpec& model, const ModelPart& part) : model_(model), part_(part) {}

  void embedding() {
    unit_ = part_.embedding_unit();
    vocab_matrix("embedding");
    if (model_.tied_embeddings && part_.last) out_.back().first_unit = part_.head_unit();
    const bool all_narrow = narrow() && model_.narrow == Narrow::everything;
    const std::int64_t width = all_narrow ? model_.embedding_width : model_.hidden;
    if (model_.token_types > 0) on_every_rank("token_types", {model_.token_types, width});
    if (model_.positions == Positions::learned) {
      on_every_rank("positions", {model_.max_positions + model_.position_offset, width});
    }
    if (model_.embedding_norm) norm("embedding_norm", NormKind::layer_norm, width);
    if (!narrow()) return;
    on_every_rank("embedding_in.weight", {model_.hidden, model_.embedding_width});
    if (all_narrow) on_every_rank("embedding_in.bias", {model_.hidden});
  }

  /// Whose tensors are in `uses` blocks of the part.
  void block(std::int64_t layer, std::int64_t uses) {
    if (uses == 0) return;
    const std::size_t before = out_.size();
    unit_ = part_.block_unit(layer);
    const BlockSpec& b = model_.block(layer);
    prefix_ = "blocks." + std::to_string(layer) + ".";
    if (b.norm_place != NormPlace::output) block_norm("norm1", b);
    mixer(b);
    if (b.norm_place == NormPlace::output || b.norm_place == NormPlace::both) {
      block_norm("post_norm1", b);
    }
    if (b.ffn > 0 || b.moe) mlp_half(b);
    for (const BlockMatrix matrix : kBlockMatrices) {
      if (b.moe && (matrix == BlockMatrix::up || matrix == BlockMatrix::down)) {
        adapters_of_experts(b, *b.moe, matrix);
      } else {
        adapters(b, matrix);
      }
    }
    prefix_.clear();
    for (std::size_t i = before; i < out_.size(); ++i) out_[i].tensor.uses = uses;
  }

  void head() {
    unit_ = part_.head_unit();
    if (model_.final_norm) norm("final_norm", model_.runs.back().block.norm, model_.hidden);
    if (narrow() && model_.narrow == Narrow::tokens) {
      on_every_rank("head_out.weight", {model_.embedding_width, model_.hidden});
    }
    if (model_.head_transform) {
      on_every_rank("head_transform.weight", {width_of_head(), model_.hidden});
      on_every_rank("head_transform.bias", {width_of_head()});
      norm("head_norm", NormKind::layer_norm, width_of_head());
    }
    if (!model_.tied_embeddings) {
      vocab_matrix("head.weight");
    } else if (!part_.first) {
      vocab_matrix("embedding");
    }
    if (model_.head_bias) vocab_bias("head.bias");
  }

  std::vector<PartTensor> take() { return std::move(out_); }

 private:
  bool narrow() const { return model_.embedding_width > 0; }
  std::int64_t width_of_head() const { return narrow() ? model_.embedding_width : model_.hidden; }

  void mixer(const BlockSpec& b) {
    if (b.mamba) {
      mamba(*b.mamba);
    } else if (b.latent) {
      latent_attention(b, *b.latent);
    } else {
      attention(b);
    }
  }

  void attention(const BlockSpec& b) {
    const std::int64_t width = b.heads * b.head_dim, kv = b.kv_heads * b.head_dim;
    by_rows("qkv", {share(width, 0), share(kv, width), share(kv, width + kv)}, b.qkv_bias);
    if (b.qk_norm) {
      query_or_key_norm("q_norm", b, b.heads);
      query_or_key_norm("k_norm", b, b.kv_heads);
    }
    if (b.sinks) add("sinks", {b.heads}, {share(b.heads, 0)}, {0, 1});
    by_columns("out", width, b.out_bias);
  }

  /// Source: huggingface/transformers models/deepseek_v3/modeling_deepseek_v3.py,
  /// DeepseekV3Attention: what makes the latent vectors is whole on every rank.
  void latent_attention(const BlockSpec& b, const LatentSpec& l) {
    const std::int64_t queries = b.heads * (l.nope_dim + l.rope_dim);
    if (l.q_rank > 0) {
      whole_linear("q_a.weight", l.q_rank, model_.hidden);
      if (b.qkv_bias) on_every_rank("q_a.bias", {l.q_rank});
      norm("q_a_norm", NormKind::rms_norm, l.q_rank);
    }
    rows_of("q_b.weight", queries, l.q_rank > 0 ? l.q_rank : model_.hidden);
    whole_linear("kv_a.weight", l.kv_rank + l.rope_dim, model_.hidden);
    if (b.qkv_bias) on_every_rank("kv_a.bias", {l.kv_rank + l.rope_dim});
    norm("kv_a_norm", NormKind::rms_norm, l.kv_rank);
    rows_of("kv_b.weight", b.heads * (l.nope_dim + l.value_dim), l.kv_rank);
    by_columns("out", b.heads * l.value_dim, b.out_bias);
  }

  /// Source: huggingface/transformers models/mamba/modeling_mamba.py, MambaMixer, and
  /// models/jamba/modeling_jamba.py, JambaMambaMixer; A is stored as its logarithm.
  void mamba(const MambaSpec& m) {
    by_rows("in", {share(m.inner, 0), share(m.inner, m.inner)}, m.proj_bias);
    add("conv.weight", {m.inner, m.conv}, {share(m.inner, 0)}, {0, m.conv});
    if (m.conv_bias) add("conv.bias", {m.inner}, {share(m.inner, 0)}, {0, 1});
    const std::int64_t selected = m.dt_rank + 2 * m.state;
    linear("x.weight", {selected, m.inner}, {{0, selected}}, share(m.inner, 0));
    if (m.inner_norms) {
      norm("dt_norm", NormKind::rms_norm, m.dt_rank);
      norm("b_norm", NormKind::rms_norm, m.state);
      norm("c_norm", NormKind::rms_norm, m.state);
    }
    rows_of("dt.weight", m.inner, m.dt_rank);
    add("dt.bias", {m.inner}, {share(m.inner, 0)}, {0, 1});
    add("A_log", {m.inner, m.state}, {share(m.inner, 0)}, {0, m.state});
    add("D", {m.inner}, {share(m.inner, 0)}, {0, 1});
    by_columns("out", m.inner, m.proj_bias);
  }

  void mlp_half(const BlockSpec& b) {
    const bool shares_norm =
        b.residual == Residual::parallel_shared || b.norm_place == NormPlace::output;
    if (!shares_norm) block_norm("norm2", b);
    if (b.moe) {
      experts(b, *b.moe);
    } else {
      mlp("", b, b.ffn, b.mlp_bias);
    }
    if (b.norm_place == NormPlace::output || b.norm_place == NormPlace::both) {
      block_norm("post_norm2", b);
    }
  }

  void mlp(const std::string& of, const BlockSpec& b, std::int64_t ffn, bool bias) {
    if (b.mlp == MlpKind::gated) {
      by_rows(of + "gate_up", {share(ffn, 0), share(ffn, ffn)}, bias);
    } else {
      by_rows(of + "up", {share(ffn, 0)}, bias);
    }
    by_columns(of + "down", ffn, bias);
  }

  void experts(const BlockSpec& b, const MoeSpec& moe) {
    on_every_rank("router.weight", {moe.experts, model_.hidden});
    if (moe.router_bias) on_every_rank("router.bias", {moe.experts});
    if (moe.selection_bias) {
      on_every_rank("router.selection_bias", {moe.experts});
      out_.back().tensor.trained = false;
    }
    const bool gated = b.mlp == MlpKind::gated;
    first_of_experts(moe, gated ? "experts.gate_up" : "experts.up", gated ? 2 : 1);
    second_of_experts(moe, "experts.down");
    if (moe.shared_ffn > 0) mlp("shared.", b, moe.shared_ffn, false);
    if (moe.shared_gate) on_every_rank("shared_gate.weight", {1, model_.hidden});
  }

  /// This rank's experts' first matrices [parts ffn, hidden], one below the other, each cut by
  /// rows. Which ones and which rows is no matter of size: those of the first rank.
  void first_of_experts(const MoeSpec& moe, const std::string& name, std::int64_t parts) {
    std::vector<Stretch> rows;
    const std::int64_t here = moe.experts / part_.ep, cut = moe.ffn / part_.etp;
    if (part_.etp == 1) rows.push_back({0, parts * here * moe.ffn});
    for (std::int64_t i = 0; part_.etp > 1 && i < parts * here; ++i) {
      rows.push_back({i * moe.ffn, cut});
    }
    const std::int64_t height = parts * moe.experts * moe.ffn;
    linear(name + ".weight", {height, model_.hidden}, rows, {0, model_.hidden});
    mark_experts(moe);
    if (!moe.expert_bias) return;
    add(name + ".bias", {height}, rows, {0, 1});
    mark_experts(moe);
  }

  /// The second ones [hidden, ffn], cut by columns.
  void second_of_experts(const MoeSpec& moe, const std::string& name) {
    const std::int64_t height = moe.experts * model_.hidden, here = height / part_.ep;
    linear(name + ".weight", {height, moe.ffn}, {{0, here}}, {0, moe.ffn / part_.etp});
    mark_experts(moe);
    if (!moe.expert_bias) return;
    add(name + ".bias", {height}, {{0, here}}, {0, 1});
    mark_experts(moe);
  }

  /// This tensor rank's of `count` rows or columns that begin at `first`.
  Stretch share(std::int64_t count, std::int64_t first) const {
    const std::int64_t mine = count / part_.tp;
    return {first + part_.tp_rank * mine, mine};
  }

  /// `whole` has one dimension for a vector, two for a matrix.
  void add(const std::string& name, const std::vector<std::int64_t>& whole,
           std::vector<Stretch> rows, Stretch columns) {
    std::int64_t height = 0;
    for (const Stretch& each : rows) height += each.count;
    std::vector<std::int64_t> shape{height};
    if (whole.size() == 2) shape.push_back(columns.count);
    out_.push_back({{prefix_ + name, std::move(shape), !model_.lora.freezes()},
                    whole,
                    std::move(rows),
                    columns,
                    false,
                    unit_,
                    unit_});
  }

  /// A layer's matrix, which a format for weights may store otherwise.
  void linear(const std::string& name, const std::vector<std::int64_t>& whole,
              std::vector<Stretch> rows, Stretch columns) {
    add(name, whole, std::move(rows), columns);
    out_.back().tensor.linear = true;
  }

  void whole(const std::string& name, const std::vector<std::int64_t>& shape) {
    add(name, shape, {{0, shape[0]}}, {0, shape.size() == 2 ? shape[1] : 1});
  }

  /// What every tensor rank applies to its own tokens, if they are cut.
  void on_every_rank(const std::string& name, const std::vector<std::int64_t>& shape) {
    whole(name, shape);
    out_.back().partial_gradient = part_.sp;
  }

  void whole_linear(const std::string& name, std::int64_t n, std::int64_t m) {
    on_every_rank(name, {n, m});
    out_.back().tensor.linear = true;
  }

  void vocab_matrix(const std::string& name) {
    const std::int64_t rows = vocab_share(model_.vocab, part_.tp), columns = width_of_head();
    add(name, {model_.vocab, columns}, {{part_.tp_rank * rows, rows}}, {0, columns});
  }

  void vocab_bias(const std::string& name) {
    const std::int64_t rows = vocab_share(model_.vocab, part_.tp);
    add(name, {model_.vocab}, {{part_.tp_rank * rows, rows}}, {0, 1});
  }

  void block_norm(const std::string& name, const BlockSpec& b) {
    norm(name, b.norm, model_.hidden);
  }

  void norm(const std::string& name, NormKind kind, std::int64_t width) {
    if (kind == NormKind::layer_norm_without_weight) return;
    on_every_rank(name + ".weight", {width});
    if (kind == NormKind::layer_norm) on_every_rank(name + ".bias", {width});
  }

  void query_or_key_norm(const std::string& name, const BlockSpec& b, std::int64_t heads) {
    switch (b.qk_norm_kind) {
      case QkNorm::heads_rms:
        return of_heads(name + ".weight", b.head_dim);
      case QkNorm::heads_layer:
        of_heads(name + ".weight", b.head_dim);
        return of_heads(name + ".bias", b.head_dim);
      case QkNorm::width_rms:
      case QkNorm::each_head_layer:
        return add(name + ".weight", {heads * b.head_dim}, {share(heads * b.head_dim, 0)}, {0, 1});
      case QkNorm::plain:
        return;
    }
  }

  /// One vector for all heads, of which each tensor rank has its own.
  void of_heads(const std::string& name, std::int64_t head_dim) {
    whole(name, {head_dim});
    out_.back().partial_gradient = part_.tp > 1;
  }

  void adapters(const BlockSpec& b, BlockMatrix matrix) {
    for (const Adapter& each : adapters_of(model_.lora, b, model_.hidden, matrix)) {
      adapter(std::string(word(each.target)), each, b, matrix);
    }
  }

  /// Every expert has adapters of its own, and so have those that every token goes through.
  void adapters_of_experts(const BlockSpec& b, const MoeSpec& moe, BlockMatrix matrix) {
    BlockSpec one = b;
    one.ffn = moe.ffn;
    for (const Adapter& each : adapters_of(model_.lora, one, model_.hidden, matrix)) {
      const std::string name = "experts." + std::string(word(each.target));
      on_every_rank(name + ".lora_A", {moe.experts * model_.lora.rank, each.inputs});
      mark_experts(moe);
      out_.back().tensor.trained = true;
      on_every_rank(name + ".lora_B", {moe.experts * each.outputs, model_.lora.rank});
      mark_experts(moe);
      out_.back().tensor.trained = true;
    }
    if (moe.shared_ffn == 0) return;
    one.ffn = moe.shared_ffn;
    const std::string prefix = std::exchange(prefix_, prefix_ + "shared.");
    adapters(one, matrix);
    prefix_ = prefix;
  }

  void mark_experts(const MoeSpec& moe) {
    out_.back().tensor.experts = moe.experts;
    out_.back().tensor.active_experts = moe.top_k;
  }

  /// A has the matrix's columns and B its rows, cut as they are. What is whole on every tensor rank
  /// gets a part of its gradient from each: A of rows that are cut, B of columns that are.
  void adapter(const std::string& name, const Adapter& each, const BlockSpec& b,
               BlockMatrix matrix) {
    const std::int64_t rank = model_.lora.rank;
    const bool cuts_rows = matrix == BlockMatrix::qkv || matrix == BlockMatrix::up;
    add(name + ".lora_A", {rank, each.inputs}, {{0, rank}},
        cuts_rows ? Stretch{0, each.inputs} : share(each.inputs, 0));
    trained(cuts_rows);
    add(name + ".lora_B", {each.outputs, rank},
        cuts_rows ? output_rows(each, b) : std::vector<Stretch>{{0, each.outputs}}, {0, rank});
    trained(!cuts_rows);
  }

  void trained(bool partial_gradient) {
    out_.back().tensor.trained = true;
    out_.back().partial_gradient = partial_gradient && part_.tp > 1;
  }

  /// Of B: this rank's share of each of the parts that the adapter covers, counted from its first
  /// row.
  std::vector<Stretch> output_rows(const Adapter& each, const BlockSpec& b) const {
    const std::int64_t width = b.heads * b.head_dim, kv = b.kv_heads * b.head_dim;
    if (each.target == LoraTarget::qkv_proj) {
      return {share(width, 0), share(kv, width), share(kv, width + kv)};
    }
    if (each.target == LoraTarget::gate_up_proj) return {share(b.ffn, 0), share(b.ffn, b.ffn)};
    return {share(each.outputs, 0)};
  }

  void rows_of(const std::string& name, std::int64_t n, std::int64_t m) {
    linear(name, {n, m}, {share(n, 0)}, {0, m});
  }

  /// `rows` are this rank's of a matrix that has tp times as many.
  void by_rows(const std::string& name, const std::vector<Stretch>& rows, bool bias) {
    std::int64_t height = 0;
    for (const Stretch& each : rows) height += part_.tp * each.count;
    linear(name + ".weight", {height, model_.hidden}, rows, {0, model_.hidden});
    if (bias) add(name + ".bias", {height}, rows, {0, 1});
  }

  void by_columns(const std::string& name, std::int64_t width, bool bias) {
    linear(name + ".weight", {model_.hidden, width}, {{0, model_.hidden}}, share(width, 0));
    if (bias) on_every_rank(name + ".bias", {model_.hidden});
  }

  const ModelSpec& model_;
  const ModelPart& part_;
  std::int64_t unit_ = 0;
  std::string prefix_;  ///< of the names
  std::vector<PartTensor> out_;
};

}  // namespace

std::vector<PartTensor> part_tensors(const ModelSpec& model, const ModelPart& part) {
  PartBuilder builder(model, part);
  if (part.first) builder.embedding();
  for (std::int64_t i = 0; i < part.layers; ++i) {
    const std::int64_t layer = part.first_layer + i;
    builder.block(layer, blocks_with_tensors(model, part, layer));
  }
  if (part.last) builder.head();
  return builder.take();
}

}  // namespace planwright
