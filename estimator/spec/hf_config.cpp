#include "estimator/spec/hf_config.h"

#include <algorithm>
#include <filesystem>

#include "estimator/spec/error.h"
#include "estimator/spec/hf_families.h"
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
  for (const auto& name : classes) {
    if (name == family.architecture) continue;
    config.refuse("architectures",
                  "must be " + std::string(family.architecture) + " for model_type " +
                      std::string(family.model_type),
                  std::string(family.architecture));
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
void check_keys(const HfReader& config, const HfFamily& family, const Json& json) {
  for (const auto& item : json.items()) {
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

std::vector<std::string> hf_families() {
  std::vector<std::string> names;
  for (const auto& family : hf_family_table()) names.emplace_back(family.model_type);
  return names;
}

ModelSpec model_from_hf_config(const Json& config, const std::string& source) {
  if (!config.is_object()) throw InputError({source, "", "", "must be a JSON object", ""});
  const HfReader reader(config, source);
  const HfFamily& family = family_of(reader);
  check_architecture(reader, family);
  check_keys(reader, family, config);
  ModelSpec model = family.build(reader);
  require_countable(model, source);
  model.name = model_name(source);
  model.family = family.model_type;
  return model;
}

ModelSpec model_from_hf_text(const std::string& text, const std::string& source) {
  return model_from_hf_config(parse_json(text, source), source);
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
