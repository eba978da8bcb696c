#include <array>
#include <string_view>
#include <utility>

#include "estimator/spec/hf_parts.h"

namespace planwright::hf {
namespace {

/// Each with the value, as JSON, at which it changes nothing; null and absent never do.
constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kUnsized{{
    {"attention_multiplier", ""},
    {"attn_output_multiplier", ""},
    {"attn_temperature_tuning", "false"},
    {"clip_qkv", ""},
    {"embedding_multiplier", "1.0"},
    {"embedding_multiplier_scale", "1.0"},
    {"logit_scale", "1.0"},
    {"logits_scaling", "1.0"},
    {"no_rope_layer_interval", ""},
    {"no_rope_layers", "[]"},
    {"output_multiplier_scale", "1.0"},
    {"query_pre_attn_scalar", ""},
    {"residual_multiplier", "1.0"},
    {"rope_local_base_freq", ""},
    {"rope_ratio", "1.0"},
    {"router_jitter_noise", "0.0"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"scale_attn_weights", "true"},
    {"swiglu_limit", ""},
    {"use_dynamic_ntk", "false"},
    {"use_logn_attn", "false"},
}};

/// Probabilities by which a decoder's values are zeroed, of all families.
constexpr std::array<std::string_view, 14> kDropouts{
    "activation_dropout", "attention_dropout", "attention_probs_dropout_prob",
    "attn_dropout_prob",  "attn_pdrop",        "dropout",
    "emb_dropout_prob",   "embd_dropout",      "embd_pdrop",
    "embedding_dropout",  "hidden_dropout",    "hidden_dropout_prob",
    "resid_pdrop",        "residual_dropout"};

bool changes_nothing(const Json& value, std::string_view neutral) {
  return !neutral.empty() && value == Json::parse(neutral);
}

/// "embedding_multiplier = 12.0"; of a list the key alone.
std::string described(std::string_view key, const Json& value) {
  return std::string(key) + (value.is_primitive() ? " = " + value.dump() : "");
}

double number_in(const Json& object, const char* key, double usual) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : usual;
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

constexpr const char* kOfWholeAttention = "full_attention";

/// transformers 5 moved rope_scaling into rope_parameters.
const char* scaling_key(const HfReader& config) {
  return config.find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
}

/// Of which Gemma 3's have one for each kind of attention.
const Json* scaling_object(const HfReader& config) {
  const Json* found = config.find(scaling_key(config));
  if (found == nullptr || !found->is_object()) return nullptr;
  const auto whole = found->find(kOfWholeAttention);
  return whole != found->end() && whole->is_object() ? &*whole : found;
}

/// Of the same object, or of the configuration itself; 0 if neither says.
std::int64_t original_positions(const HfReader& config) {
  const char* const key = "original_max_position_embeddings";
  const std::int64_t usual = config.count_or(key, 0);
  const HfReader scaling = config.inner(scaling_key(config));
  const Json* const whole = scaling.find(kOfWholeAttention);
  if (whole == nullptr || !whole->is_object()) return scaling.count_or(key, usual);
  return scaling.inner(kOfWholeAttention).count_or(key, usual);
}

/// "mrope" gives text the positions that "default" does.
bool stretches(const std::string& type) {
  return !type.empty() && type != "default" && type != "mrope";
}

}  // namespace

std::optional<RopeScaling> rope_scaling(const HfReader& config) {
  const Json* const json = scaling_object(config);
  if (json == nullptr) return std::nullopt;
  RopeScaling scaling;
  scaling.type = text_in(*json, "rope_type");
  if (scaling.type.empty()) scaling.type = text_in(*json, "type");
  if (!stretches(scaling.type)) return std::nullopt;
  scaling.factor = number_in(*json, "factor", scaling.factor);
  scaling.original_positions = original_positions(config);
  scaling.low_freq_factor = number_in(*json, "low_freq_factor", scaling.low_freq_factor);
  scaling.high_freq_factor = number_in(*json, "high_freq_factor", scaling.high_freq_factor);
  scaling.beta_fast = number_in(*json, "beta_fast", scaling.beta_fast);
  scaling.beta_slow = number_in(*json, "beta_slow", scaling.beta_slow);
  scaling.mscale = number_in(*json, "mscale", scaling.mscale);
  scaling.mscale_all_dim = number_in(*json, "mscale_all_dim", scaling.mscale_all_dim);
  return scaling;
}

double init_std(const HfReader& config, double usual) {
  return number_in(config.json(), "initializer_range", usual);
}

std::string unsized(const HfReader& config) {
  std::string keys;
  for (const auto& [key, neutral] : kUnsized) {
    const Json* const value = config.find(key);
    if (value == nullptr || changes_nothing(*value, neutral)) continue;
    keys += (keys.empty() ? "" : ", ") + described(key, *value);
  }
  return keys;
}

std::string dropout(const HfReader& config) {
  std::string keys;
  for (const std::string_view key : kDropouts) {
    const Json* const value = config.find(key);
    if (value == nullptr || !value->is_number() || value->get<double>() == 0) continue;
    keys += (keys.empty() ? "" : ", ") + described(key, *value);
  }
  return keys;
}

}  // namespace planwright::hf
