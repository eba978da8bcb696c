#include "launcher/targets/shared/untold.h"

#include <fmt/core.h>

#include <algorithm>

#include "estimator/spec/model_features.h"
#include "launcher/targets/megatron_deepspeed/arguments.h"

/// What neither fork's arguments say. Sources: bigscience-workshop/Megatron-DeepSpeed
/// megatron/arguments.py @ 8387ae1; microsoft/Megatron-DeepSpeed megatron/arguments.py.
namespace planwright::targets::megatron_deepspeed {
namespace {

std::string spoken(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

/// Gated MLPs are SwiGLU; plain ones have GELU, which is fused with its bias in the tanh form.
bool has_activation(const BlockSpec& block) {
  if (block.mlp == MlpKind::gated) return block.activation == Activation::silu;
  return block.activation == (block.mlp_bias ? Activation::gelu_tanh : Activation::gelu);
}

/// All linear layers have biases, or none.
bool has_biases(const BlockSpec& block) {
  return block.qkv_bias == block.mlp_bias && block.out_bias == block.mlp_bias;
}

void add_block(std::vector<std::string>& all, const BlockSpec& block) {
  if (!has_activation(block)) {
    all.push_back(fmt::format("activation {} of {} MLPs", word(block.activation), word(block.mlp)));
  }
  if (!has_biases(block)) all.emplace_back("biases of some linear layers only");
  if (block.qk_norm) all.emplace_back("norms of queries and keys");
  if (block.sliding_window > 0) {
    all.push_back(fmt::format("sliding_window {}", block.sliding_window));
  }
  if (block.residual != Residual::sequential) {
    all.push_back(fmt::format("{} residuals", spoken(std::string(word(block.residual)))));
  }
}

}  // namespace

std::vector<std::string> untold(const ModelSpec& model) {
  std::vector<std::string> all;
  if (model.rope_scaling) all.push_back(scaling_text(model));
  for (const std::string& name : all_words<ModelFeature>()) {
    if (has_feature(model, *from_word<ModelFeature>(name))) all.push_back(spoken(name));
  }
  add_block(all, model.block(0));
  return all;
}

}  // namespace planwright::targets::megatron_deepspeed
