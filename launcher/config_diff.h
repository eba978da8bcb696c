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

/// A file in use beside the plan's.
struct ConfigComparison {
  std::vector<ConfigDifference> differences;
  /// "auto" in use, where the plan has a value: the framework fills them in as it starts.
  std::vector<ConfigDifference> automatic;
  std::vector<std::string> own;  ///< keys of the user's, which no plan decides
  bool operator==(const ConfigComparison&) const = default;
};

/// The file at `path` against the configuration's file of the same name, or its first file of the
/// same format. Numbers are equal whatever their spelling. A key that only the file in use has is a
/// difference if the target writes it for one of `others`, and else the user's own. An InputError
/// if the file cannot be read, is none of JSON, YAML and TOML, or the configuration has no such
/// file.
ConfigComparison compare_config(const LaunchConfig& config, const std::string& path,
                                const std::vector<LaunchConfig>& others);

}  // namespace planwright::launcher
