#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "estimator/spec/json.h"
#include "tests/support/fault.h"

/// The shipped config.json files, as they are and changed.
namespace planwright::testing {

inline const std::string kConfigs = PLANWRIGHT_SOURCE_DIR "/estimator/data/models";

inline Json published(const std::string& name) {
  return parse_json(file_text(kConfigs + "/" + name + ".json"), name);
}

/// `name` with the keys of `patch` put in, and those whose value is the word "absent" taken out.
inline Json patched(const std::string& name, const std::string& patch) {
  Json config = published(name);
  const Json changes = Json::parse(patch);
  for (const auto& [key, value] : changes.items()) {
    config.erase(key);
    if (value != "absent") config[key] = value;
  }
  return config;
}

}  // namespace planwright::testing
