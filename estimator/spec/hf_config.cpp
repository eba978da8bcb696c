#include "estimator/spec/hf_config.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "estimator/spec/error.h"
#include "estimator/spec/hf_families.h"
#include "estimator/spec/hf_parts.h"
#include "estimator/spec/soundness.h"
#include "estimator/spec/text_file.h"

namespace planwright {
namespace {

namespace fs = std::filesystem;

bool holds(const std::vector<std::string_view>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

const HfFixedKey* find_fixed(const std::vector<HfFixedKey>& keys, std::string_view key) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](const HfFixedKey& fixed) { return fixed.key == key; });
  return found == keys.end() ? nullptr : &*found;
}

/// Where a model of several parts keeps its language model.
constexpr std::array<std::string_view, 3> kLanguageKeys{"text_config", "language_config",
                                                        "llm_config"};

bool is_known(const std::string& type) {
  const auto families = hf_families();
  return std::find(families.begin(), families.end(), type) != families.end();
}

bool says_known_type(const Json& config) {
  if (!config.is_object() || !config.contains("model_type")) return false;
  const Json& type = config["model_type"];
  return type.is_string() && is_known(type.get<std::string>());
}

/// The key of the language model, if the configuration is one of several parts of which no family
/// tells more, best one that can be read; empty otherwise.
std::string_view language_key(const HfReader& config) {
  if (says_known_type(config.json())) return "";
  std::string_view there;
  for (const std::string_view key : kLanguageKeys) {
    const Json* part = config.find(key);
    if (part == nullptr) continue;
    if (says_known_type(*part)) return key;
    if (there.empty()) there = key;
  }
  return there;
}

const HfFamily& family_of(const HfReader& config) {
  const std::string readable = "one that can be read: " + join_words(hf_families());
  const Json* json = config.find("model_type");
  if (json == nullptr) config.refuse_missing("model_type", "; it must be " + readable);
  std::string type;
  decode(*json, config.at("model_type"), type);
  for (const auto& family : hf_family_table()) {
    if (family.model_type == type) return family;
  }
  config.refuse("model_type", "is not " + readable, nearest_word(type, hf_families()));
}

/// The class decides which head the weights have, so it must be the one that is counted.
void check_architecture(const HfReader& config, const HfFamily& family) {
  const Json* json = config.find("architectures");
  if (json == nullptr) return;
  std::vector<std::string> classes;
  decode(*json, config.at("architectures"), classes);
  const std::vector<std::string> allowed(family.architectures.begin(), family.architectures.end());
  for (const auto& name : classes) {
    if (holds(family.architectures, name)) continue;
    config.refuse(
        "architectures",
        "must be " + join_words(allowed) + " for model_type " + std::string(family.model_type),
        nearest_word(name, allowed).empty() ? allowed.front() : nearest_word(name, allowed));
  }
}

void check_fixed(const HfReader& config, const HfFixedKey& fixed) {
  const Json* json = config.find(fixed.key);
  if (json == nullptr || *json == Json::parse(fixed.only)) return;
  config.refuse(fixed.key, "must be " + std::string(fixed.only) + ": " + std::string(fixed.why),
                std::string(fixed.only));
}

void refuse_unknown(const HfReader& config, const HfFamily& family, const std::string& key) {
  std::vector<std::string> known(family.mapped.begin(), family.mapped.end());
  for (const auto& fixed : family.fixed) known.emplace_back(fixed.key);
  config.refuse(
      key,
      "is not a key of " + std::string(family.model_type) + " models; it may change their size",
      nearest_word(key, known));
}

/// Before anything is read: a misspelt key is named as such, not as the one that is missing.
void check_keys(const HfReader& config, const HfFamily& family) {
  for (const auto& item : config.json().items()) {
    const std::string& key = item.key();
    if (key.rfind('_', 0) == 0) continue;
    if (holds(family.mapped, key) || holds(family.ignored, key)) continue;
    if (holds(hf_ignored_everywhere(), key)) continue;
    const HfFixedKey* fixed = find_fixed(family.fixed, key);
    if (fixed == nullptr) fixed = find_fixed(hf_fixed_everywhere(), key);
    if (fixed == nullptr) refuse_unknown(config, family, key);
    check_fixed(config, *fixed);
  }
}

ModelSpec read_family(const HfReader& config);

/// The language model alone; its own keys win over those around it.
ModelSpec read_language_model(const HfReader& config, std::string_view key) {
  const HfReader inner = config.inner(key);
  ModelSpec model = read_family(inner);
  model.checkpoint = hf::checkpoint_format(inner);
  for (const auto& item : config.json().items()) {
    if (!item.value().is_object() || item.key() == key) continue;
    if (!item.key().ends_with("_config") || item.key() == "quantization_config") continue;
    model.uncounted += (model.uncounted.empty() ? "" : ", ") + item.key();
  }
  return model;
}

ModelSpec read_family(const HfReader& config) {
  if (const auto key = language_key(config); !key.empty()) return read_language_model(config, key);
  const HfFamily& family = family_of(config);
  check_architecture(config, family);
  check_keys(config, family);
  ModelSpec model = family.build(config);
  model.family = family.model_type;
  if (const auto scaling = hf::rope_scaling(config)) model.rope_scaling = scaling;
  model.init_std = hf::init_std(config, model.init_std);
  model.dropout = hf::dropout(config);
  if (const std::string keys = hf::unsized(config); !keys.empty()) model.unsized = keys;
  return model;
}

/// `models/gpt2/config.json` and `models/gpt2` are called gpt2, and so is `gpt2.json`.
std::string model_name(const std::string& source) {
  fs::path path(source);
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename().string();
  if (name == "config.json" && path.has_parent_path()) {
    name = fs::weakly_canonical(path).parent_path().filename().string();
  }
  const std::string_view suffix = ".json";
  if (name.size() > suffix.size() && name.ends_with(suffix)) {
    name.resize(name.size() - suffix.size());
  }
  return name;
}

}  // namespace

ModelSpec hf::text_model(const HfReader& config, const std::vector<std::string>& types) {
  const HfReader text = config.inner("text_config");
  text.require_word("model_type", types);
  ModelSpec model = read_family(text);
  model.checkpoint = checkpoint_format(text);
  return model;
}

std::vector<std::string> hf_families() {
  std::vector<std::string> names;
  for (const auto& family : hf_family_table()) names.emplace_back(family.model_type);
  return names;
}

ModelSpec model_from_hf_config(const Json& config, const std::string& source) {
  if (!config.is_object()) throw InputError({source, "", "", "must be a JSON object", ""});
  const HfReader reader(config, source);
  ModelSpec model = read_family(reader);
  if (auto format = hf::checkpoint_format(reader)) model.checkpoint = std::move(format);
  require_countable(model, source);
  model.name = model_name(source);
  return model;
}

ModelSpec model_from_hf_text(const std::string& text, const std::string& source) {
  return model_from_hf_config(parse_json(text, source), source);
}

ModelOrigin origin_of_hf_text(const std::string& text, const std::string& source) {
  const Json file = parse_json(text, source);
  const HfReader reader(file, source);
  ModelOrigin origin{
      reader.text("_hf_id", ""), reader.text("_source", ""), reader.text("_certainty", ""), {}};
  const HfReader published = reader.inner("_published_params");
  const Json* exact = published.find("exact");
  if (exact != nullptr && exact->is_object()) {
    for (const auto& item : exact->items()) {
      decode(item.value(), published.at("exact"), origin.published.emplace_back());
    }
  } else {
    origin.published = {published.size({"exact"})};
  }
  return origin;
}

ModelSpec read_hf_config(const std::string& path) {
  std::error_code error;
  fs::path file = path;
  if (fs::is_directory(file, error)) {
    file /= "config.json";
    if (!fs::exists(file, error)) throw InputError({path, "", "", "holds no config.json", ""});
  }
  return model_from_hf_text(read_given_file(file.string()), file.string());
}

}  // namespace planwright
