#include "launcher/targets/shared/untold.h"

#include <fmt/core.h>

#include "launcher/targets/megatron/arguments.h"

/// What pretrain_gpt.py's arguments do not reach. Sources: NVIDIA/Megatron-LM @ core_r0.14.0 and
/// core_r0.19.0, the files beside each function.
namespace planwright::targets::megatron {
namespace {

/// megatron/core/models/common/embeddings/rotary_pos_embedding.py, RotaryEmbedding._apply_scaling.
/// The factor has an argument, --rope-scaling-factor, which pretrain_gpt.py and gpt_builders.py do
/// not hand on.
bool is_applied_llama3(const RopeScaling& scaling) {
  return scaling.type == "llama3" && scaling.factor == 8.0 && scaling.low_freq_factor == 1.0 &&
         scaling.high_freq_factor == 4.0 && scaling.original_positions == 8192;
}

/// megatron/core/transformer/transformer_config.py, MLATransformerConfig.
bool is_applied_yarn(const RopeScaling& scaling) {
  return scaling.type == "yarn" && scaling.beta_fast == 32.0 && scaling.beta_slow == 1.0 &&
         scaling.original_positions == 4096;
}

std::string llama3_text(const RopeScaling& scaling) {
  return fmt::format(
      "rope_scaling llama3 (factor {}, low_freq_factor {}, high_freq_factor {}, "
      "original_max_position_embeddings {}), of which pretrain_gpt.py's model takes 8, 1, 4 and "
      "8192 "
      "whatever --rope-scaling-factor says",
      scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor,
      scaling.original_positions);
}

std::string yarn_text(const RopeScaling& scaling) {
  return fmt::format(
      "rope_scaling yarn's beta_fast {}, beta_slow {} and original_max_position_embeddings {}, "
      "which "
      "are 32, 1 and 4096 where attention is latent",
      scaling.beta_fast, scaling.beta_slow, scaling.original_positions);
}

std::string untold_scaling(const ModelSpec& model) {
  if (!model.rope_scaling) return "";
  const RopeScaling& scaling = *model.rope_scaling;
  const bool latent = model.block(0).latent.has_value();
  if (latent && scaling.type == "yarn") {
    return is_applied_yarn(scaling) ? "" : yarn_text(scaling);
  }
  if (!latent && scaling.type == "llama3") {
    return is_applied_llama3(scaling) ? "" : llama3_text(scaling);
  }
  return scaling_text(model);
}

/// megatron/core/transformer/moe/moe_utils.py: a sigmoid's weights are divided by their sum, and
/// groups are scored by the sum of their best, which DeepSeek-V2 takes the first of.
std::string untold_router(const MoeSpec& moe) {
  const bool sigmoid = moe.score == RouterScore::sigmoid;
  const bool divides = !sigmoid || moe.weights_sum_to_one || moe.top_k == 1;
  const bool groups = moe.groups == 0 || sigmoid;
  if (divides && groups) return "";
  return router_text(moe) +
         (groups ? ", whose weights are not divided by their sum"
                 : ", whose groups are scored by their best expert and not by several");
}

/// megatron/core/fusions/fused_bias_gelu.py: with its bias GELU is fused, in its tanh form; without
/// one it is exact.
std::string untold_activation(const BlockSpec& block) {
  if (block.mlp != MlpKind::plain) return "";
  const Activation computed = block.mlp_bias ? Activation::gelu_tanh : Activation::gelu;
  const bool gelu =
      block.activation == Activation::gelu || block.activation == Activation::gelu_tanh;
  if (!gelu || block.activation == computed) return "";
  return fmt::format("activation {}, in the place of which it has {}", word(block.activation),
                     word(computed));
}

}  // namespace

std::vector<std::string> untold(const ModelSpec& model) {
  std::vector<std::string> all{untold_scaling(model), untold_activation(model.block(0))};
  for (const BlockRun& run : model.runs) {
    if (!run.block.moe) continue;
    all.push_back(untold_router(*run.block.moe));
    break;
  }
  std::erase(all, "");
  return all;
}

}  // namespace planwright::targets::megatron
