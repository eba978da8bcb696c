#include "estimator/spec/lora.h"

#include <algorithm>

#include "estimator/spec/model_spec.h"

namespace planwright {
namespace {

BlockMatrix matrix_of(LoraTarget target) {
  switch (target) {
    case LoraTarget::q_proj:
    case LoraTarget::k_proj:
    case LoraTarget::v_proj:
    case LoraTarget::qkv_proj:
      return BlockMatrix::qkv;
    case LoraTarget::o_proj:
      return BlockMatrix::out;
    case LoraTarget::gate_proj:
    case LoraTarget::up_proj:
    case LoraTarget::gate_up_proj:
      return BlockMatrix::up;
    case LoraTarget::down_proj:
      return BlockMatrix::down;
  }
  return BlockMatrix::qkv;
}

Adapter place_of(LoraTarget target, const BlockSpec& b, std::int64_t hidden) {
  const std::int64_t width = b.heads * b.head_dim, kv = b.kv_heads * b.head_dim;
  const std::int64_t gate = b.mlp == MlpKind::gated ? b.ffn : 0;
  switch (target) {
    case LoraTarget::q_proj:
      return {target, 0, width, hidden};
    case LoraTarget::k_proj:
      return {target, width, kv, hidden};
    case LoraTarget::v_proj:
      return {target, width + kv, kv, hidden};
    case LoraTarget::qkv_proj:
      return {target, 0, width + 2 * kv, hidden};
    case LoraTarget::o_proj:
      return {target, 0, hidden, width};
    case LoraTarget::gate_proj:
      return {target, 0, gate, hidden};
    case LoraTarget::up_proj:
      return {target, gate, b.ffn, hidden};
    case LoraTarget::gate_up_proj:
      return {target, 0, gate + b.ffn, hidden};
    case LoraTarget::down_proj:
      return {target, 0, hidden, b.ffn};
  }
  return {};
}

bool has(const LoraSpec& lora, LoraTarget target) {
  return std::find(lora.targets.begin(), lora.targets.end(), target) != lora.targets.end();
}

}  // namespace

std::vector<Adapter> adapters_of(const LoraSpec& lora, const BlockSpec& block, std::int64_t hidden,
                                 BlockMatrix matrix) {
  std::vector<Adapter> found;
  for (std::size_t i = 0; i < kWordCount<LoraTarget>; ++i) {
    const auto target = static_cast<LoraTarget>(i);
    if (matrix_of(target) == matrix && has(lora, target)) {
      found.push_back(place_of(target, block, hidden));
    }
  }
  return found;
}

std::vector<LoraTarget> all_linear(const BlockSpec& block) {
  using enum LoraTarget;
  std::vector<LoraTarget> all{q_proj, k_proj, v_proj, o_proj};
  if (block.mlp == MlpKind::gated) all.push_back(gate_proj);
  all.push_back(up_proj);
  all.push_back(down_proj);
  return all;
}

std::string broken_targets(const LoraSpec& lora, const BlockSpec& block) {
  using enum LoraTarget;
  if (lora.freezes() && (block.latent || block.mamba)) {
    return "names matrices that a block with " +
           std::string(block.latent ? "latent attention" : "a Mamba mixer") + " has not";
  }
  const auto both = [&](LoraTarget whole, LoraTarget part) {
    return has(lora, whole) && has(lora, part);
  };
  if (lora.rank > 0 && lora.targets.empty()) return "must name at least one module";
  if (block.mlp != MlpKind::gated && (has(lora, gate_proj) || has(lora, gate_up_proj))) {
    return "names a gate, and the model's MLP has none";
  }
  for (const auto& [whole, part] : {std::pair{qkv_proj, q_proj},
                                    {qkv_proj, k_proj},
                                    {qkv_proj, v_proj},
                                    {gate_up_proj, gate_proj},
                                    {gate_up_proj, up_proj}}) {
    if (both(whole, part)) {
      return "names " + std::string(word(part)) + " twice: it is a part of " +
             std::string(word(whole));
    }
  }
  return "";
}

}  // namespace planwright
