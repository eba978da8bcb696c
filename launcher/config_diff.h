#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/target.h"

/// A plan's launch configuration against one that is in use.
namespace planwright::launcher {

/// One key where they part: "zero_optimization.stage", "list[2]". Values are JSON text; absent
/// where a side has no such key.
struct ConfigDifference {
  std::string key;
  std::optional<std::string> in_use, planned;
  bool operator==(const ConfigDifference&) const = default;
};

/// The values of the file at `path` that differ from those of the configuration's file of the same
/// name, or of its first file of the same format. Numbers are equal whatever their spelling. An
/// InputError if the file cannot be read, is none of JSON, YAML and TOML, or the configuration has
/// no such file.
std::vector<ConfigDifference> config_differences(const LaunchConfig& config,
                                                 const std::string& path);

}  // namespace planwright::launcher
