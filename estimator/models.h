#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/hf_config.h"
#include "estimator/spec/model_spec.h"

namespace planwright::estimator {

/// Names of the shipped models (estimator/data/models), sorted.
std::vector<std::string> model_presets();

/// The preset of this name, or the config.json (or its folder) at this path. An InputError that
/// names `file`, `key` and the nearest preset if it is neither.
/// What the preset's file says of itself.
ModelOrigin model_origin(const std::string& preset);

ModelSpec find_model(std::string_view name_or_path, const std::string& file,
                     const std::string& key);

}  // namespace planwright::estimator
