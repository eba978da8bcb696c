#include "launcher/logs/log_table.h"

#include <optional>
#include <string_view>

#include "estimator/spec/error.h"
#include "estimator/spec/words.h"
#include "launcher/logs/field.h"
#include "launcher/logs/pattern.h"

namespace planwright::launcher {
namespace {

/// More are no description of a log.
constexpr std::size_t kMostPatterns = 1000;

struct Place {
  const std::string& path;
  std::string key;

  [[noreturn]] void refuse(const std::string& rule, const std::string& value = "",
                           const std::string& nearest = "") const {
    throw InputError({path, key, value, rule, nearest});
  }
};

std::vector<std::string> texts(const toml::node& node, const Place& place) {
  const toml::array* const array = node.as_array();
  if (array == nullptr || array->size() > kMostPatterns) {
    place.refuse("must be a list of at most 1000 texts");
  }
  std::vector<std::string> list;
  for (const toml::node& each : *array) {
    const auto text = each.value_exact<std::string>();
    if (!text) place.refuse("must be a list of texts in quotes");
    list.push_back(*text);
  }
  return list;
}

bool flag(const toml::node& node, const Place& place) {
  const auto value = node.value_exact<bool>();
  if (!value) place.refuse("must be true or false");
  return *value;
}

std::string with_doubled_braces(std::string_view text) {
  std::string doubled;
  for (const char c : text) {
    doubled += c;
    if (c == '{' || c == '}') doubled += c;
  }
  return doubled;
}

std::vector<std::string> key_patterns(const toml::node& node, const Place& place) {
  const toml::table* const table = node.as_table();
  if (table == nullptr || table->size() > kMostPatterns) {
    place.refuse("must be a table of at most 1000 keys");
  }
  std::vector<std::string> patterns;
  for (const auto& [name, value] : *table) {
    const std::string key(name.str());
    const Place here{place.path, place.key + "." + key};
    const auto figure = value.value_exact<std::string>();
    if (!figure) here.refuse("must be the name of a figure in quotes");
    if (!field_of_name(*figure)) {
      here.refuse("is no figure", *figure, nearest_word(*figure, field_names()));
    }
    patterns.push_back(with_doubled_braces(key) + "{=}{" + *figure + "}");
    Pattern(patterns.back(), here.path, here.key);  // the key itself may be too short
  }
  return patterns;
}

void check(const std::vector<std::string>& patterns, const Place& place) {
  for (const std::string& each : patterns) Pattern(each, place.path, place.key);
}

}  // namespace

LogFormat log_format_of_toml(const toml::table& table, const std::string& path,
                             const std::string& name) {
  const std::vector<std::string> known{"lines", "ignored", "keys", "decimal_comma", "binary_units"};
  LogFormat format{.name = path, .lines = {}};
  for (const auto& [key, node] : table) {
    const Place place{path, name + "." + std::string(key.str())};
    if (key == "lines") {
      const auto lines = texts(node, place);
      check(lines, place);
      format.lines.insert(format.lines.begin(), lines.begin(), lines.end());
    } else if (key == "keys") {
      const auto lines = key_patterns(node, place);
      format.lines.insert(format.lines.end(), lines.begin(), lines.end());
    } else if (key == "ignored") {
      format.ignored = texts(node, place);
      check(format.ignored, place);
    } else if (key == "decimal_comma") {
      format.decimal_comma = flag(node, place);
    } else if (key == "binary_units") {
      format.binary_units = flag(node, place);
    } else {
      place.refuse("is not a key of a log's table", "", nearest_word(key.str(), known));
    }
  }
  if (format.lines.empty()) Place{path, name}.refuse("needs `lines` or `keys`");
  return format;
}

}  // namespace planwright::launcher
