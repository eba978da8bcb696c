#include "estimator/spec/model_part.h"

#include <algorithm>
#include <numeric>

#include "estimator/spec/rank_grid.h"

namespace planwright {
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
          .ep = c.ep,
          .etp = c.etp,
          .sp = c.sp};
}

std::vector<std::int64_t> stage_parameters(const ModelSpec& model, const Candidate& c) {
  std::vector<std::int64_t> counts;
  for (int stage = 0; stage < c.pp; ++stage) {
    ModelPart part = model_part(model, c, rank_at(c, {0, 0, stage}));
    part.tp = 1;
    std::int64_t count = 0;
    for (const PartTensor& each : part_tensors(model, part)) count += each.tensor.numel();
    counts.push_back(count);
  }
  return counts;
}

BlockSpec tensor_share(BlockSpec block, int tp) {
  block.heads /= tp;
  block.kv_heads /= tp;
  block.ffn /= tp;
  return block;
}

std::int64_t vocab_share(std::int64_t vocab, int tp) { return (vocab + tp - 1) / tp; }

std::int64_t blocks_with_tensors(const ModelSpec& model, const ModelPart& part,
                                 std::int64_t layer) {
  std::int64_t first = 0;
  for (const BlockRun& run : model.runs) {
    const std::int64_t end = first + run.count;
    if (layer < end) {
      if (!run.shared) return 1;
      const bool is_first = layer == std::max(first, part.first_layer);
      return is_first ? std::min(end, part.first_layer + part.layers) - layer : 0;
    }
    first = end;
  }
  return 0;
}

bool shares_embedding(const ModelSpec& model, const ModelPart& part) {
  return model.tied_embeddings && part.first != part.last;
}

}  // namespace planwright
