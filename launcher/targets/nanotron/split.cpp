#include "launcher/targets/nanotron/split.h"

#include <cstddef>

namespace planwright::targets::nanotron {
namespace {

struct Part {
  bool is_block = false;
  std::int64_t cost = 0;
};

std::int64_t cost_of(const ModelSpec& model, const BlockSpec& block) {
  return 4 * block.heads * block.head_dim * model.hidden + 3 * block.ffn * model.hidden;
}

std::vector<Part> parts_of(const ModelSpec& model) {
  constexpr Part kFree{};
  std::vector<Part> parts{kFree};  // embedding
  for (std::int64_t layer = 0; layer < model.layers(); ++layer) {
    parts.push_back({true, cost_of(model, model.block(layer))});
  }
  const Part head{false, model.vocab * model.hidden};
  parts.insert(parts.end(), {kFree, head, kFree, kFree});  // norm, head, cast, loss
  return parts;
}

}  // namespace

std::vector<StageParts> split(const ModelSpec& model, int stages) {
  const std::vector<Part> parts = parts_of(model);
  double whole = 0, given = 0;
  for (const Part& part : parts) whole += static_cast<double>(part.cost);
  std::vector<StageParts> split(static_cast<std::size_t>(stages));
  std::size_t stage = 0;
  for (const Part& part : parts) {
    ++(part.is_block ? split[stage].blocks : split[stage].others);
    given += static_cast<double>(part.cost);
    const double share = static_cast<double>(stage + 1) / stages;
    if (given > whole * share && stage + 1 < split.size()) ++stage;
  }
  return split;
}

std::vector<std::int64_t> stage_layers(const ModelSpec& model, int stages) {
  std::vector<std::int64_t> layers;
  for (const StageParts& stage : split(model, stages)) layers.push_back(stage.blocks);
  return layers;
}

}  // namespace planwright::targets::nanotron
