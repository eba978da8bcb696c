#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/keys.h"
#include "cli/setting.h"

namespace planwright::cli {

/// What a person has set, by table and key, from a TOML file and from flags.
class Settings {
 public:
  /// A later value replaces an earlier one.
  void set(Table table, std::string_view name, Setting setting);

  /// Null if it was not given.
  const Setting* find(Table table, std::string_view name) const;

  /// A flag without a value.
  bool marked(Table table, std::string_view name) const;

  bool has_any(Table table) const;

 private:
  std::map<std::pair<Table, std::string>, Setting> values_;
};

/// Reads a TOML file of the eight tables. An InputError names the file and the key that is unknown,
/// in the wrong table or of the wrong type.
Settings read_toml_settings(const std::string& path);
/// The same of a text that stands in `path`.
Settings settings_of_toml(const std::string& text, const std::string& path);

/// The parts of a comma-separated list, none of them empty.
std::vector<Setting> split_list(const Setting& list);

/// NAME=VALUE,NAME=VALUE, each name once.
std::map<std::string, std::string> parse_pairs(const Setting& setting);

}  // namespace planwright::cli
