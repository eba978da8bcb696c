#pragma once

#include <cstdint>
#include <string>

#include "estimator/spec/error.h"
#include "estimator/spec/words.h"

namespace planwright::cli {

/// One value that a person gave, as text, and where: what a message about it must name.
struct Setting {
  std::string text;
  std::string file;  ///< a path, or "command line"
  std::string key;   ///< "--zero", "[space] zero"
};

constexpr const char* kCommandLine = "command line";

/// Throws the InputError that says which rule the setting breaks.
[[noreturn]] void refuse(const Setting& setting, std::string rule, std::string nearest = "");

/// One of the enum's words.
template <class Enum>
Enum parse_setting_word(const Setting& setting) {
  return parse_word<Enum>(setting.text, setting.file, setting.key);
}

/// A whole number of at least `least`, in decimal digits.
std::int64_t parse_integer(const Setting& setting, std::int64_t least);

/// The same for what is counted in an int: at most a million.
int parse_count(const Setting& setting, int least);

/// `on` or `off`.
bool parse_toggle(const Setting& setting);

}  // namespace planwright::cli
