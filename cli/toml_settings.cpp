#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/settings.h"
#include "cli/toml_text.h"
#include "estimator/spec/text_file.h"

namespace planwright::cli {
namespace {

namespace fs = std::filesystem;

std::string shown(Table table, std::string_view key) {
  return fmt::format("[{}] {}", kTableNames[static_cast<std::size_t>(table)], key);
}

/// A value as it stands in the file.
std::string as_written(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& each) { text << toml::toml_formatter{each}; });
  return text.str();
}

/// A path in a file is relative to that file, not to where the command is run.
std::string beside(const std::string& file, const std::string& path) {
  return (fs::path(file).parent_path() / path).lexically_normal().string();
}

[[noreturn]] void refuse_type(const Setting& place, const toml::node& node, std::string rule) {
  refuse({as_written(node), place.file, place.key}, std::move(rule));
}

/// A text that can stand in a list of pairs.
std::string pair_value(std::string_view name, const toml::node& node, const Setting& place) {
  const auto text = node.value_exact<std::string>();
  if (!text || text->find_first_of(",|") != std::string::npos) {
    refuse_type({"", place.file, fmt::format("{}.{}", place.key, name)}, node,
                "must be one text in quotes, without commas and bars");
  }
  return *text;
}

/// `NAME=VALUE,NAME=VALUE`; several values, which only [space] has a use for, stand between bars.
std::string pairs_text(const toml::node& node, const Setting& place, bool has_lists) {
  const toml::table* table = node.as_table();
  if (table == nullptr)
    refuse_type(place, node, "must be a table of names and texts, as { NAME = \"text\" }");
  std::string text;
  for (const auto& [name, value] : *table) {
    text += fmt::format("{}{}=", text.empty() ? "" : ",", name.str());
    const toml::array* list = has_lists ? value.as_array() : nullptr;
    if (list == nullptr) text += pair_value(name.str(), value, place);
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      text += (i == 0 ? "" : "|") + pair_value(name.str(), *list->get(i), place);
    }
  }
  return text;
}

std::string text_value(const toml::node& node, const Setting& place) {
  const auto text = node.value_exact<std::string>();
  if (!text) refuse_type(place, node, "must be a text in quotes");
  return *text;
}

/// One value of the key's shape, as the command line would have it.
std::string scalar_text(const Key& key, Table table, const toml::node& node, const Setting& place) {
  switch (key.shape) {
    case Shape::integer: {
      const auto number = node.value_exact<std::int64_t>();
      if (!number) refuse_type(place, node, "must be a whole number, without quotes");
      return std::to_string(*number);
    }
    case Shape::number:
      if (!node.is_number()) refuse_type(place, node, "must be a number, without quotes");
      return as_written(node);
    case Shape::toggle:
    case Shape::mark: {
      if (const auto flag = node.value_exact<bool>()) return *flag ? "on" : "off";
      if (key.shape == Shape::mark) refuse_type(place, node, "must be true or false");
      return text_value(node, place);
    }
    case Shape::pairs:
      return pairs_text(node, place, table == Table::space);
    case Shape::words:
      if (!node.is_array()) refuse_type(place, node, "must be a list of texts in quotes");
      return as_written(node);
    case Shape::table:
      if (!node.is_table()) refuse_type(place, node, "must be a table");
      return as_written(node);
    case Shape::path:
      return beside(place.file, text_value(node, place));
    case Shape::path_or_name: {
      const std::string text = text_value(node, place);
      const std::string path = beside(place.file, text);
      std::error_code unreadable;
      return fs::exists(path, unreadable) ? path : text;
    }
    case Shape::text:
      break;
  }
  return text_value(node, place);
}

std::string value_text(const Key& key, Table table, const toml::node& node, const Setting& place) {
  const toml::array* list = node.as_array();
  const bool is_one_value =
      key.shape == Shape::words || (key.shape == Shape::pairs && table == Table::launch);
  if (list == nullptr || is_one_value) return scalar_text(key, table, node, place);
  if (table != Table::space) {
    const bool axis = table == Table::candidate;
    refuse_type(
        place, node,
        axis ? "must be one value: lists stand in [space]" : "must be one value, not a list");
  }
  std::string text;
  for (const toml::node& each : *list) {
    text += (text.empty() ? "" : ",") + scalar_text(key, table, each, place);
  }
  if (text.empty()) refuse_type(place, node, "must have at least one value");
  return text;
}

[[noreturn]] void refuse_key(const std::string& path, Table table, std::string_view name) {
  const Setting place{"", path, shown(table, name)};
  const Key* key = find_key(flag_spelling(name));
  if (key != nullptr && key->table != Table::none && !belongs(*key, table)) {
    const auto home = kTableNames[static_cast<std::size_t>(key->table)];
    refuse(place, fmt::format("does not belong in this table, but in [{}]", home));
  }
  std::vector<std::string> valid;
  for (const Key& each : all_keys()) {
    if (belongs(each, table)) valid.push_back(toml_spelling(each.name));
  }
  refuse(place, "is not a key of this table", nearest_word(name, valid));
}

void read_table(const std::string& path, Table table, const toml::table& content,
                Settings& settings) {
  for (const auto& [name, node] : content) {
    const Key* key = find_key(flag_spelling(name.str()));
    if (key == nullptr || !belongs(*key, table) || toml_spelling(key->name) != name.str()) {
      refuse_key(path, table, name.str());
    }
    Setting setting{"", path, shown(table, name.str())};
    setting.text = value_text(*key, table, node, setting);
    if (setting.text.empty()) refuse(setting, "must not be empty");
    settings.set(table, key->name, std::move(setting));
  }
}

}  // namespace

Settings read_toml_settings(const std::string& path) {
  return settings_of_toml(read_given_file(path), path);
}

Settings settings_of_toml(const std::string& text, const std::string& path) {
  const std::vector<std::string> names(std::begin(kTableNames), std::end(kTableNames));
  Settings settings;
  for (const auto& [name, node] : parse_toml(text, path)) {
    const auto found = std::find(names.begin(), names.end(), name.str());
    if (found == names.end()) {
      throw InputError({path, fmt::format("{}", name.str()), "",
                        fmt::format("is not one of the tables {}", join_words(names)),
                        nearest_word(name.str(), names, "[", "]")});
    }
    if (!node.is_table()) {
      throw InputError({path, std::string(name.str()), as_written(node),
                        fmt::format("must be a table, written [{}]", name.str()), ""});
    }
    const auto table = static_cast<Table>(found - names.begin());
    read_table(path, table, *node.as_table(), settings);
  }
  return settings;
}

}  // namespace planwright::cli
