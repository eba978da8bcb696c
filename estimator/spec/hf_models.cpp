#include "estimator/spec/hf_models.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/soundness.h"

namespace planwright::hf {
namespace {

const Spellings kHidden{"hidden_size"};
const Spellings kHeads{"num_attention_heads"};
const Spellings kLayers{"num_hidden_layers"};
const Spellings kPositions{"max_position_embeddings", "max_sequence_length"};

// GPT2Config.attribute_map gives each of its own names a second one.
const Spellings kGptHidden{"n_embd", "hidden_size"};
const Spellings kGptHeads{"n_head", "num_attention_heads"};
const Spellings kGptLayers{"n_layer", "num_hidden_layers"};
const Spellings kGptPositions{"n_positions", "n_ctx", "max_position_embeddings"};

std::int64_t nearest_divisor(std::int64_t value, std::int64_t near) {
  std::int64_t best = 1;
  const auto consider = [&](std::int64_t divisor) {
    if (std::abs(divisor - near) < std::abs(best - near)) best = divisor;
  };
  for (std::int64_t d = 1; d <= value / d; ++d) {
    if (value % d != 0) continue;
    consider(d);
    consider(value / d);
  }
  return best;
}

void require_divides(const HfReader& config, std::string_view key, std::int64_t divisor,
                     const std::string& of, std::int64_t value) {
  if (value % divisor == 0) return;
  config.refuse(key, "must divide " + of + " = " + std::to_string(value),
                std::to_string(nearest_divisor(value, divisor)));
}

std::int64_t layer_count(const HfReader& config, const Spellings& spellings) {
  const std::int64_t layers = config.size(spellings);
  if (layers > kMostLayers) {
    config.refuse(config.spelled(spellings), "must be at most " + std::to_string(kMostLayers),
                  std::to_string(kMostLayers));
  }
  return layers;
}

/// transformers 5 moved rope_theta into rope_parameters.
double rope_theta(const HfReader& config) {
  const double theta = config.number("rope_theta", 10000.0);
  const Json* moved = config.find("rope_parameters");
  if (moved == nullptr) return theta;
  if (!moved->is_object()) config.refuse("rope_parameters", "must be an object");
  if (!moved->contains("rope_theta")) return theta;
  double inner = 0;
  decode((*moved)["rope_theta"], config.at("rope_parameters"), inner);
  if (!(inner > 0)) config.refuse("rope_parameters", "must hold a rope_theta above 0");
  if (config.find("rope_theta") != nullptr && inner != theta) {
    config.refuse("rope_theta", "contradicts the one in rope_parameters");
  }
  return inner;
}

std::int64_t head_dim(const HfReader& config, std::int64_t hidden, std::int64_t heads) {
  const auto given = config.size_if_given({"head_dim"});
  if (!given) require_divides(config, "num_attention_heads", heads, "hidden_size", hidden);
  const std::int64_t dim = given.value_or(hidden / heads);
  if (dim % 2 != 0) {
    config.refuse(
        given ? "head_dim" : "num_attention_heads",
        "makes heads of " + std::to_string(dim) + " elements; rotary positions turn them in pairs");
  }
  return dim;
}

/// What the three families share: rotary positions, RMSNorm, a gated SiLU feed-forward, grouped
/// heads. Every block sees the whole sequence.
ModelSpec rotary_gated(const HfReader& config) {
  ModelSpec model;
  model.hidden = config.size(kHidden);
  model.vocab = config.size({"vocab_size"});
  model.max_positions = config.size(kPositions);
  model.positions = Positions::rotary;
  model.rope_theta = rope_theta(config);
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  config.require_word("hidden_act", {"silu", "swish"});

  BlockSpec block;
  block.heads = config.size(kHeads);
  block.head_dim = head_dim(config, model.hidden, block.heads);
  block.kv_heads = config.size_if_given({"num_key_value_heads"}).value_or(block.heads);
  require_divides(config, "num_key_value_heads", block.kv_heads, "num_attention_heads",
                  block.heads);
  block.ffn = config.size({"intermediate_size"});
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  model.runs = {{layer_count(config, kLayers), block}};
  return model;
}

/// LlamaConfig takes an absent count as the number of heads. MistralConfig takes 8, Qwen2Config
/// and Qwen3Config 32 whatever the heads, so an absent one there is more likely a mistake than a
/// model.
void require_kv_heads(const HfReader& config) {
  if (config.has("num_key_value_heads")) return;
  config.refuse_missing("num_key_value_heads", " (null: as many as num_attention_heads)");
}

/// Which layers attend over a window, as layer_types says it, or nullopt without that key.
std::optional<std::vector<bool>> listed_windows(const HfReader& config, std::int64_t layers) {
  const Json* json = config.find("layer_types");
  if (json == nullptr) return std::nullopt;
  std::vector<std::string> types;
  decode(*json, config.at("layer_types"), types);
  if (static_cast<std::int64_t>(types.size()) != layers) {
    config.refuse("layer_types", "must have one entry for each of the " + std::to_string(layers) +
                                     " layers, not " + std::to_string(types.size()));
  }
  std::vector<bool> windows;
  for (const auto& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      config.refuse("layer_types", "may hold full_attention and sliding_attention, not " + type,
                    nearest_word(type, {"full_attention", "sliding_attention"}));
    }
    windows.push_back(type == "sliding_attention");
  }
  return windows;
}

/// Qwen2Config, and Qwen3Config: with use_sliding_window the layers from max_window_layers on have
/// the window.
std::vector<bool> qwen_windows(const HfReader& config, std::int64_t layers) {
  const auto listed = listed_windows(config, layers);
  if (!config.flag("use_sliding_window", false)) {
    if (listed && std::count(listed->begin(), listed->end(), true) > 0) {
      config.refuse("layer_types", "holds sliding_attention, but use_sliding_window is off",
                    "full_attention");
    }
    return std::vector<bool>(static_cast<std::size_t>(layers), false);
  }
  if (listed) return *listed;
  const Json* json = config.find("max_window_layers");
  if (json == nullptr) config.refuse_missing("max_window_layers", " beside use_sliding_window");
  std::int64_t first = 0;
  decode(*json, config.at("max_window_layers"), first);
  if (first < 0) config.refuse("max_window_layers", "must be at least 0", "0");
  std::vector<bool> windows(static_cast<std::size_t>(layers), true);
  std::fill_n(windows.begin(), std::min(first, layers), false);
  return windows;
}

/// One run of blocks becomes runs of those with a window and those without.
void cut_by_windows(const HfReader& config, ModelSpec& model) {
  BlockRun run = model.runs.front();
  const auto windows = qwen_windows(config, run.count);
  const bool any = std::count(windows.begin(), windows.end(), true) > 0;
  const std::int64_t window = any ? config.size({"sliding_window"}) : 0;

  model.runs.clear();
  for (const bool has_window : windows) {
    run.count = 1;
    run.block.sliding_window = has_window ? window : 0;
    if (!model.runs.empty() && model.runs.back().block == run.block) {
      ++model.runs.back().count;
    } else {
      model.runs.push_back(run);
    }
  }
}

}  // namespace

ModelSpec gpt2(const HfReader& config) {
  ModelSpec model;
  model.hidden = config.size(kGptHidden);
  model.vocab = config.size({"vocab_size"});
  model.max_positions = config.size(kGptPositions);
  model.positions = Positions::learned;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  config.require_word("activation_function", {"gelu_new", "gelu_pytorch_tanh"});

  BlockSpec block;
  block.heads = config.size(kGptHeads);
  require_divides(config, config.spelled(kGptHeads), block.heads,
                  std::string(config.spelled(kGptHidden)), model.hidden);
  block.kv_heads = block.heads;
  block.head_dim = model.hidden / block.heads;
  block.ffn = config.size_if_given({"n_inner"}).value_or(4 * model.hidden);
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  model.runs = {{layer_count(config, kGptLayers), block}};
  return model;
}

ModelSpec llama(const HfReader& config) {
  ModelSpec model = rotary_gated(config);
  BlockSpec& block = model.runs.front().block;
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
  block.mlp_bias = config.flag("mlp_bias", false);
  return model;
}

ModelSpec mistral(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config);
  model.runs.front().block.sliding_window = config.size_if_given({"sliding_window"}).value_or(0);
  return model;
}

ModelSpec qwen2(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config);
  model.runs.front().block.qkv_bias = true;  // Qwen2Attention has them always; no key says so
  cut_by_windows(config, model);
  return model;
}

ModelSpec qwen3(const HfReader& config) {
  require_kv_heads(config);
  if (!config.has("head_dim")) {
    config.refuse_missing("head_dim", " (Qwen3Config takes 128 whatever the heads)");
  }
  ModelSpec model = rotary_gated(config);
  BlockSpec& block = model.runs.front().block;
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
  block.qk_norm = true;  // Qwen3Attention has them always
  cut_by_windows(config, model);
  return model;
}

}  // namespace planwright::hf
