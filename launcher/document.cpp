#include "launcher/document.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "launcher/quote.h"

namespace planwright::launcher {
namespace {

/// With a point, without which YAML 1.1 takes 1e-05 for text.
std::string real_text(const Json& value) {
  std::string text = value.dump();
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos || text.find('.') < exponent) return text;
  return text.insert(exponent, ".0");
}

/// Text that every reader of YAML takes for text without quotes: an identifier that is no other
/// type's word. Source: yaml.org/type, bool and null.
bool is_plain(std::string_view text) {
  constexpr std::array<std::string_view, 10> kTyped{"y",   "n",    "yes",   "no",   "on",
                                                    "off", "true", "false", "null", "none"};
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0 || c == '_'; };
  const auto part = [&](unsigned char c) { return letter(c) || std::isdigit(c) != 0; };
  if (text.empty() || !letter(text.front()) || !std::all_of(text.begin(), text.end(), part)) {
    return false;
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kTyped.begin(), kTyped.end(), lower) == kTyped.end();
}

enum class Format { yaml, toml };

std::string value_text(const Json& value, Format format) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return format == Format::yaml && is_plain(text) ? text : in_quotes(text);
  }
  if (value.is_number_float()) return real_text(value);
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const Json& each : value) list += (list.empty() ? "" : ", ") + value_text(each, format);
  return "[" + list + "]";
}

std::string yaml_lines(const Json& object, const std::string& indent) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    text += value.is_object() ? indent + key + ":\n" + yaml_lines(value, indent + "  ")
                              : indent + key + ": " + value_text(value, Format::yaml) + "\n";
  }
  return text;
}

std::string toml_table(const Json& object, const std::string& name) {
  std::string text = name.empty() ? "" : "\n[" + name + "]\n";
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object()) text += key + " = " + value_text(value, Format::toml) + "\n";
  }
  const std::string before = name.empty() ? "" : name + ".";
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) text += toml_table(value, std::string(before).append(key));
  }
  return text;
}

}  // namespace

std::string yaml_text(const Json& document) { return yaml_lines(document, ""); }

std::string toml_text(const Json& document) { return toml_table(document, ""); }

}  // namespace planwright::launcher
