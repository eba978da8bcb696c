#include "estimator/spec/error.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "estimator/spec/utf8.h"

namespace planwright {
namespace {

/// What was given may be anything; a message stays one line and leaves the terminal as it is.
std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text));
    const std::string_view character = text.substr(0, length);
    text.remove_prefix(length);
    if (is_printable(character)) {
      out += character;
      continue;
    }
    for (const char c : character) {
      char escape[5];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
      out += escape;
    }
  }
  return out;
}

/// Keys, values and rules of any length, for what is wrong may stand in each; a person reads the
/// beginning.
std::string shortened(const std::string& text, std::size_t most = 200) {
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string message(const InputFault& fault) {
  std::string text;
  if (!fault.file.empty()) text += fault.file + ": ";
  if (!fault.key.empty()) text += shortened(fault.key);
  if (!fault.value.empty()) text += (fault.key.empty() ? "" : " = ") + shortened(fault.value);
  if (!fault.key.empty() || !fault.value.empty()) text += ": ";
  text += shortened(fault.rule, 4000);
  if (!fault.nearest.empty()) text += "; did you mean " + fault.nearest + "?";
  return printable(text);
}

}  // namespace

InputError::InputError(InputFault fault)
    : std::runtime_error(message(fault)), fault_(std::move(fault)) {}

}  // namespace planwright
