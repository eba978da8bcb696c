#include "estimator/spec/hf_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "estimator/spec/soundness.h"

namespace planwright::hf {
namespace {

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

std::int64_t head_dim(const HfReader& config, std::int64_t hidden, std::int64_t heads,
                      std::int64_t usual) {
  const auto given = config.size_if_given({"head_dim"});
  if (!given && usual > 0) return usual;
  if (!given) require_divides(config, "num_attention_heads", heads, "hidden_size", hidden);
  const std::int64_t dim = given.value_or(hidden / heads);
  if (dim % 2 != 0) {
    config.refuse(
        given ? "head_dim" : "num_attention_heads",
        "makes heads of " + std::to_string(dim) + " elements; rotary positions turn them in pairs");
  }
  return dim;
}

bool holds(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

Keys with(Keys keys, const Keys& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

const Keys& rotary_keys() {
  static const Keys kKeys{"hidden_size",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "num_hidden_layers",
                          "max_position_embeddings",
                          "max_sequence_length",
                          "intermediate_size",
                          "head_dim",
                          "vocab_size",
                          "hidden_act",
                          "rms_norm_eps",
                          "rope_theta",
                          "rope_parameters",
                          "tie_word_embeddings"};
  return kKeys;
}

const std::vector<std::string>& silu_words() {
  static const std::vector<std::string> kWords{"silu", "swish"};
  return kWords;
}

const std::vector<std::string>& gelu_words() {
  static const std::vector<std::string> kWords{"gelu", "gelu_python"};
  return kWords;
}

const std::vector<std::string>& gelu_tanh_words() {
  static const std::vector<std::string> kWords{"gelu_pytorch_tanh", "gelu_new", "gelu_fast",
                                               "gelu_accurate"};
  return kWords;
}

Activation activation_of(const HfReader& config, std::string_view key, Activation usual) {
  if (config.find(key) == nullptr) return usual;
  const std::string text = config.text(key, "");
  if (holds(silu_words(), text)) return Activation::silu;
  if (holds(gelu_words(), text)) return Activation::gelu;
  if (holds(gelu_tanh_words(), text)) return Activation::gelu_tanh;
  if (text == "relu") return Activation::relu;
  if (text == "relu2") return Activation::relu_squared;
  config.require_word(
      key, {"silu", "gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "relu", "relu2"});
  return usual;
}

void require_divides(const HfReader& config, std::string_view key, std::int64_t divisor,
                     const std::string& of, std::int64_t value) {
  if (value % divisor == 0) return;
  config.refuse(key, "must divide " + of + " = " + std::to_string(value),
                std::to_string(nearest_divisor(value, divisor)));
}

std::int64_t kv_heads(const HfReader& config, std::int64_t heads, const Spellings& spellings) {
  const std::int64_t found = config.size_or(spellings, heads);
  require_divides(config, config.spelled(spellings), found, "num_attention_heads", heads);
  return found;
}

std::int64_t multiple(const HfReader& config, std::string_view key, std::int64_t value,
                      std::int64_t times) {
  if (value <= kMostSize / times) return value * times;
  config.refuse(key, "makes a width of more than 2^40");
}

std::int64_t layer_count(const HfReader& config, const Spellings& spellings) {
  const std::int64_t layers = config.size(spellings);
  if (layers > kMostLayers) {
    config.refuse(config.spelled(spellings), "must be at most " + std::to_string(kMostLayers),
                  std::to_string(kMostLayers));
  }
  return layers;
}

double rope_theta(const HfReader& config, std::string_view key) {
  const double theta = config.number(key, 10000.0);
  if (config.find("rope_parameters") == nullptr) return theta;
  const HfReader moved = config.inner("rope_parameters");
  if (moved.find("rope_theta") == nullptr) return theta;
  const double inner = moved.number("rope_theta", theta);
  if (config.find(key) != nullptr && inner != theta) {
    config.refuse(key, "contradicts the one in rope_parameters");
  }
  return inner;
}

std::int64_t rotary_dim(const HfReader& config, std::string_view key, double usual,
                        std::int64_t head_dim) {
  const double fraction = config.number(key, usual);
  if (fraction > 1) config.refuse(key, "must be at most 1, the whole head", "1.0");
  const auto turned =
      static_cast<std::int64_t>(std::floor(fraction * static_cast<double>(head_dim)));
  return turned == head_dim ? 0 : turned;
}

ModelSpec outline(const HfReader& config, const OutlineKeys& keys) {
  ModelSpec model;
  model.hidden = config.size(keys.hidden);
  model.vocab = config.size({"vocab_size"});
  model.max_positions = keys.usual_positions > 0
                            ? config.size_or(keys.positions, keys.usual_positions)
                            : config.size(keys.positions);
  model.norm_eps = config.number(keys.eps, keys.usual_eps);
  model.tied_embeddings = config.flag("tie_word_embeddings", keys.tied);
  BlockSpec block;
  block.heads = block.kv_heads = config.size(keys.heads);
  require_divides(config, config.spelled(keys.heads), block.heads,
                  std::string(config.spelled(keys.hidden)), model.hidden);
  block.head_dim = model.hidden / block.heads;
  model.runs = {{layer_count(config, keys.layers), block}};
  return model;
}

ModelSpec rotary_gated(const HfReader& config, const RotaryUsual& usual) {
  ModelSpec model;
  model.hidden = config.size(kHidden);
  model.vocab = config.size({"vocab_size"});
  model.max_positions = config.size(kPositions);
  model.positions = Positions::rotary;
  model.rope_theta = rope_theta(config);
  model.norm_eps = config.number(config.spelled(usual.eps), 1e-6);
  model.tied_embeddings = config.flag("tie_word_embeddings", usual.tied);

  BlockSpec block;
  block.heads = config.size(kHeads);
  block.head_dim = head_dim(config, model.hidden, block.heads, usual.head_dim);
  block.kv_heads = kv_heads(config, block.heads);
  block.ffn = config.size({"intermediate_size"});
  block.mlp = MlpKind::gated;
  block.activation = activation_of(config, "hidden_act", usual.activation);
  block.norm = usual.norm;
  model.runs = {{layer_count(config), block}};
  return model;
}

void require_kv_heads(const HfReader& config) {
  if (config.has("num_key_value_heads")) return;
  config.refuse_missing("num_key_value_heads", " (null: as many as num_attention_heads)");
}

void for_each_layer(ModelSpec& model, const std::function<void(std::int64_t, BlockSpec&)>& change) {
  const std::int64_t layers = model.layers();
  const BlockSpec usual = model.runs.front().block;
  model.runs.clear();
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    BlockSpec block = usual;
    change(layer, block);
    if (!model.runs.empty() && model.runs.back().block == block) {
      ++model.runs.back().count;
    } else {
      model.runs.push_back({1, block});
    }
  }
}

std::optional<std::vector<bool>> listed_windows(const HfReader& config, std::int64_t layers,
                                                const std::string& windowed) {
  const auto types = config.each_layer<std::string>("layer_types", layers);
  if (!types) return std::nullopt;
  std::vector<bool> windows;
  for (const auto& type : *types) {
    if (type != "full_attention" && type != windowed) {
      std::string rule = "may hold full_attention and ";
      rule.append(windowed).append(", not ").append(type);
      config.refuse("layer_types", rule, nearest_word(type, {"full_attention", windowed}));
    }
    windows.push_back(type == windowed);
  }
  return windows;
}

void set_windows_between(const HfReader& config, ModelSpec& model, std::int64_t every) {
  std::vector<bool> windows(static_cast<std::size_t>(model.layers()));
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    windows[layer] = (static_cast<std::int64_t>(layer) + 1) % every != 0;
  }
  set_windows(config, model, listed_windows(config, model.layers()).value_or(windows));
}

void set_windows(const HfReader& config, ModelSpec& model, const std::vector<bool>& windows,
                 std::string_view key) {
  const bool any = std::count(windows.begin(), windows.end(), true) > 0;
  const std::int64_t window = any ? config.size({key}) : 0;
  for_each_layer(model, [&](std::int64_t layer, BlockSpec& block) {
    block.sliding_window = windows[static_cast<std::size_t>(layer)] ? window : 0;
  });
}

}  // namespace planwright::hf
