#include "estimator/spec/model_part.h"

#include <numeric>
#include <string>
#include <utility>

#include "estimator/spec/rank_grid.h"

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
    if (model_.positions != Positions::learned) return;
    whole("positions", {model_.max_positions, model_.hidden});
    out_.back().partial_gradient = part_.sp;
  }

  void block(std::int64_t layer) {
    unit_ = part_.block_unit(layer);
    const BlockSpec& b = model_.block(layer);
    const std::string prefix = "blocks." + std::to_string(layer) + ".";
    const std::int64_t width = b.heads * b.head_dim, kv = b.kv_heads * b.head_dim;
    norm(prefix + "norm1", b.norm);
    by_rows(prefix + "qkv", {share(width, 0), share(kv, width), share(kv, width + kv)}, b.qkv_bias);
    if (b.qk_norm) {
      norm_of_heads(prefix + "q_norm", b.head_dim);
      norm_of_heads(prefix + "k_norm", b.head_dim);
    }
    by_columns(prefix + "out", width, b.out_bias);
    if (b.residual != Residual::parallel_shared) norm(prefix + "norm2", b.norm);
    if (b.mlp == MlpKind::gated) {
      by_rows(prefix + "gate_up", {share(b.ffn, 0), share(b.ffn, b.ffn)}, b.mlp_bias);
    } else {
      by_rows(prefix + "up", {share(b.ffn, 0)}, b.mlp_bias);
    }
    by_columns(prefix + "down", b.ffn, b.mlp_bias);
    for (const BlockMatrix matrix : kBlockMatrices) {
      for (const Adapter& each : adapters_of(model_.lora, b, model_.hidden, matrix)) {
        adapter(prefix + std::string(word(each.target)), each, b, matrix);
      }
    }
  }

  void head() {
    unit_ = part_.head_unit();
    norm("final_norm", model_.runs.back().block.norm);
    if (!model_.tied_embeddings) {
      vocab_matrix("head.weight");
    } else if (!part_.first) {
      vocab_matrix("embedding");
    }
  }

  std::vector<PartTensor> take() { return std::move(out_); }

 private:
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
    out_.push_back({{name, std::move(shape), !model_.lora.freezes()},
                    whole,
                    std::move(rows),
                    columns,
                    false,
                    unit_,
                    unit_});
  }

  void whole(const std::string& name, const std::vector<std::int64_t>& shape) {
    add(name, shape, {{0, shape[0]}}, {0, shape.size() == 2 ? shape[1] : 1});
  }

  void vocab_matrix(const std::string& name) {
    const std::int64_t rows = vocab_share(model_.vocab, part_.tp);
    add(name, {model_.vocab, model_.hidden}, {{part_.tp_rank * rows, rows}}, {0, model_.hidden});
  }

  void norm(const std::string& name, NormKind kind) {
    vector_on_every_rank(name + ".weight");
    if (kind == NormKind::layer_norm) vector_on_every_rank(name + ".bias");
  }

  /// One weight for all heads, of which each tensor rank has its own.
  void norm_of_heads(const std::string& name, std::int64_t head_dim) {
    whole(name + ".weight", {head_dim});
    out_.back().partial_gradient = part_.tp > 1;
  }

  void vector_on_every_rank(const std::string& name) {
    whole(name, {model_.hidden});
    out_.back().partial_gradient = part_.sp;
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

  /// `rows` are this rank's of a matrix that has tp times as many.
  void by_rows(const std::string& name, const std::vector<Stretch>& rows, bool bias) {
    std::int64_t height = 0;
    for (const Stretch& each : rows) height += part_.tp * each.count;
    add(name + ".weight", {height, model_.hidden}, rows, {0, model_.hidden});
    if (bias) add(name + ".bias", {height}, rows, {0, 1});
  }

  void by_columns(const std::string& name, std::int64_t width, bool bias) {
    add(name + ".weight", {model_.hidden, width}, {{0, model_.hidden}}, share(width, 0));
    if (bias) vector_on_every_rank(name + ".bias");
  }

  const ModelSpec& model_;
  const ModelPart& part_;
  std::int64_t unit_ = 0;
  std::vector<PartTensor> out_;
};

}  // namespace

ModelPart whole_model(const ModelSpec& model) {
  ModelPart part;
  part.layers = model.layers();
  return part;
}

std::vector<std::int64_t> stage_layers(const ModelSpec& model, const Candidate& c) {
  std::vector<std::int64_t> layers;
  for (const StagePlan& stage : c.stages) layers.push_back(stage.blocks);
  if (!layers.empty()) return layers;
  const std::int64_t each = model.layers() / c.pp, rest = model.layers() % c.pp;
  for (int stage = 0; stage < c.pp; ++stage) layers.push_back(each + (stage < rest ? 1 : 0));
  return layers;
}

ModelPart model_part(const ModelSpec& model, const Candidate& c, int rank) {
  const RankPlace place = place_of(c, rank);
  const auto layers = stage_layers(model, c);
  const auto here = layers.begin() + place.pp;
  return {.first_layer = std::accumulate(layers.begin(), here, std::int64_t{0}),
          .layers = *here,
          .first = place.pp == 0,
          .last = place.pp == c.pp - 1,
          .tp = c.tp,
          .tp_rank = place.tp,
          .sp = c.sp};
}

BlockSpec tensor_share(BlockSpec block, int tp) {
  block.heads /= tp;
  block.kv_heads /= tp;
  block.ffn /= tp;
  return block;
}

std::int64_t vocab_share(std::int64_t vocab, int tp) { return (vocab + tp - 1) / tp; }

std::vector<PartTensor> part_tensors(const ModelSpec& model, const ModelPart& part) {
  PartBuilder builder(model, part);
  if (part.first) builder.embedding();
  for (std::int64_t i = 0; i < part.layers; ++i) builder.block(part.first_layer + i);
  if (part.last) builder.head();
  return builder.take();
}

bool shares_embedding(const ModelSpec& model, const ModelPart& part) {
  return model.tied_embeddings && part.first != part.last;
}

}  // namespace planwright
