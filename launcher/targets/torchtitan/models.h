#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/model_spec.h"

/// A model in torchtitan's words.
namespace planwright::targets::torchtitan {

/// The model folders whose blocks are as the ModelSpec's.
enum class Family { llama3, qwen3, deepseek_v3 };

/// Whose blocks the model's are; nullopt if no family has such. Those with experts are of the
/// shipped sizes, with any vocabulary.
std::optional<Family> family_of(const ModelSpec& model);

struct Flavor {
  std::string model;    ///< "llama3"
  std::string flavor;   ///< "8B"
  bool shipped = true;  ///< false: registered by the module of `registration`
};

/// The shipped flavor with the model's sizes, or a name for one that is not shipped.
Flavor flavor_of(const ModelSpec& model);

/// The folder of its family's blocks, torchtitan/models/FOLDER.
std::string model_folder(const ModelSpec& model);

/// What of the model is not in torchtitan's own flavor, or, if it is `registered`, in that module;
/// in its configuration's words.
std::vector<std::string> untold(const ModelSpec& model, bool registered);

/// The function of torchtitan 0.3's configuration registry that has the model; empty if none has.
std::string registry_function(const ModelSpec& model);

constexpr const char* kRegistrationModule = "planwright_model";

/// Python that registers the flavor for torchtitan 0.2, where it is not shipped.
std::string registration(const ModelSpec& model);

}  // namespace planwright::targets::torchtitan
