#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/model_spec.h"

namespace planwright::estimator {

/// Names of the shipped models (estimator/data/models), sorted.
std::vector<std::string> model_presets();

/// The preset of this name, or the config.json (or its folder) at this path. An InputError that
/// names `file`, `key` and the nearest preset if it is neither.
ModelSpec find_model(std::string_view name_or_path, const std::string& file,
                     const std::string& key);

}  // namespace planwright::estimator
