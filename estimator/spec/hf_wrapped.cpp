#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estimator/spec/hf_config.h"
#include "estimator/spec/hf_parts.h"

namespace planwright::hf {
namespace {

/// Every layer but each sliding_window_pattern-th has a window; Gemma3TextConfig says the
/// vocabulary's size itself where the file does not.
ModelSpec gemma3_text(const HfReader& config) {
  ModelSpec model;
  model.hidden = config.size(kHidden);
  model.vocab = config.size_or({"vocab_size"}, 262208);
  model.max_positions = config.size_or(kPositions, 131072);
  model.rope_theta = config.number("rope_theta", 1e6);
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  BlockSpec block;
  block.heads = config.size(kHeads);
  require_kv_heads(config);
  block.kv_heads = kv_heads(config, block.heads);
  block.head_dim = config.size_or({"head_dim"}, 256);
  block.ffn = config.size({"intermediate_size"});
  block.mlp = MlpKind::gated;
  block.activation = activation_of(config, "hidden_activation", Activation::gelu_tanh);
  block.norm = NormKind::rms_norm;
  block.norm_place = NormPlace::both;
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
  block.qk_norm = true;
  block.logit_cap = config.find("attn_logit_softcapping") != nullptr;
  model.logit_cap = config.find("final_logit_softcapping") != nullptr;
  model.runs = {{layer_count(config), block}};

  const std::int64_t pattern = config.size_or({"sliding_window_pattern"}, 6);
  set_windows_between(config, model, pattern);
  return model;
}

/// SiglipVisionModel: patches through a convolution, learned positions, blocks with biases
/// everywhere, a last norm.
std::int64_t siglip_parameters(const HfReader& vision) {
  vision.require_keys(
      {"attention_dropout", "hidden_act", "hidden_size", "image_size", "intermediate_size",
       "layer_norm_eps", "model_type", "num_attention_heads", "num_channels", "num_hidden_layers",
       "patch_size", "torch_dtype", "dtype", "vision_use_head"},
      "image towers of gemma3 models");
  vision.require_word("model_type", {"siglip_vision_model"});
  const std::int64_t layers = layer_count(vision);
  const auto real = [&](std::int64_t value) { return static_cast<double>(value); };
  const double hidden = real(vision.size(kHidden)), ffn = real(vision.size({"intermediate_size"}));
  const std::int64_t patch = vision.size({"patch_size"}), image = vision.size({"image_size"});
  if (patch > image) {
    vision.refuse("patch_size", "must be at most image_size = " + std::to_string(image),
                  std::to_string(image));
  }
  const double side = real(image / patch), norm = 2 * hidden;
  const double pixels = real(vision.size_or({"num_channels"}, 3)) * real(patch) * real(patch);
  const double block = 4 * (hidden * hidden + hidden) + 2 * hidden * ffn + ffn + hidden + 2 * norm;
  const double all = hidden * pixels + hidden + side * side * hidden + real(layers) * block + norm;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (all > kExact) vision.refuse("hidden_size", "makes an image tower beyond counting");
  return static_cast<std::int64_t>(all);
}

/// Gemma3MultiModalProjector: a matrix and a norm between the tower and the text model.
ModelSpec gemma3(const HfReader& config) {
  ModelSpec model = text_model(config, {"gemma3_text"});
  if (config.find("vision_config") == nullptr) return model;
  const HfReader vision = config.inner("vision_config");
  const std::int64_t width = vision.size(kHidden);
  model.tower_parameters =
      siglip_parameters(vision) + multiple(config, "vision_config", width, model.hidden) + width;
  return model;
}

ModelSpec llama4(const HfReader& config) {
  ModelSpec model = text_model(config, {"llama4_text"});
  if (config.find("vision_config") != nullptr) model.uncounted = "vision_config";
  return model;
}

}  // namespace

std::vector<HfFamily> wrapped_families() {
  const Keys images{"boi_token_index", "eoi_token_index", "image_token_index",  "boi_token_id",
                    "eoi_token_id",    "image_token_id",  "mm_tokens_per_image"};
  return {
      {"gemma3_text",
       {"Gemma3ForCausalLM"},
       {"hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers",
        "max_position_embeddings", "max_sequence_length", "intermediate_size", "head_dim",
        "vocab_size", "hidden_activation", "rms_norm_eps", "rope_theta", "tie_word_embeddings",
        "attention_bias", "sliding_window", "sliding_window_pattern", "layer_types",
        "attn_logit_softcapping", "final_logit_softcapping"},
       {{"use_bidirectional_attention", "false", "attention is causal"}},
       {"attention_dropout", "cache_implementation", "hidden_act", "query_pre_attn_scalar",
        "rope_local_base_freq", "rope_parameters", "rope_scaling", "_sliding_window_pattern"},
       gemma3_text},
      {"gemma3",
       {"Gemma3ForConditionalGeneration"},
       {"text_config", "vision_config"},
       {},
       images,
       gemma3},
      {"llama4",
       {"Llama4ForConditionalGeneration"},
       {"text_config", "vision_config"},
       {},
       with(images, {"boi_token_index", "eoi_token_index", "image_token_index"}),
       llama4},
  };
}

}  // namespace planwright::hf
