#include "estimator/models.h"

#include <algorithm>
#include <filesystem>

#include "estimator/embedded.h"
#include "estimator/spec/error.h"
#include "estimator/spec/words.h"

namespace planwright::estimator {
namespace {

constexpr std::string_view kFolder = "models/";
constexpr std::string_view kSuffix = ".json";

std::string path_of(std::string_view preset) {
  return std::string(kFolder) + std::string(preset) + std::string(kSuffix);
}

ModelSpec read_preset(const std::string& name) {
  ModelSpec model = model_from_hf_text(std::string(embedded_text(path_of(name))), "preset " + name);
  model.name = name;
  return model;
}

/// The preset of that name, capitals apart, or of that name on Hugging Face; empty if none is.
std::string preset_meant(const std::vector<std::string>& presets, const std::string& name) {
  for (const std::string& preset : presets) {
    if (same_letters(preset, name)) return preset;
  }
  if (name.find('/') == std::string::npos) return "";
  for (const std::string& preset : presets) {
    if (same_letters(model_origin(preset).hf_id, name)) return preset;
  }
  // An owner may have renamed it: meta-llama/Meta-Llama-3.1-8B is meta-llama/Llama-3.1-8B today.
  for (const std::string& preset : presets) {
    const std::string id = model_origin(preset).hf_id;
    const std::string owner = id.substr(0, id.find('/') + 1);
    if (same_letters(owner + preset, name)) return preset;
  }
  return "";
}

}  // namespace

std::vector<std::string> model_presets() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.path.starts_with(kFolder)) continue;
    names.emplace_back(
        file.path.substr(kFolder.size(), file.path.size() - kFolder.size() - kSuffix.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

ModelOrigin model_origin(const std::string& preset) {
  return origin_of_hf_text(std::string(embedded_text(path_of(preset))), "preset " + preset);
}

ModelSpec find_model(std::string_view name_or_path, const std::string& file,
                     const std::string& key) {
  const auto presets = model_presets();
  const std::string text(name_or_path);
  if (std::binary_search(presets.begin(), presets.end(), text)) return read_preset(text);
  std::error_code unreadable;
  if (std::filesystem::exists(text, unreadable)) return read_hf_config(text);
  if (const std::string meant = preset_meant(presets, text); !meant.empty()) {
    return read_preset(meant);
  }
  throw InputError({file, key, text,
                    "is neither a model that `planwright models` lists nor a config.json or a "
                    "folder that holds one",
                    nearest_word(text, presets)});
}

}  // namespace planwright::estimator
