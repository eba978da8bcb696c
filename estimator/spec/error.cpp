#include "estimator/spec/error.h"

#include <cstdio>
#include <utility>

namespace planwright {
namespace {

/// What was given may be anything; a message stays one line and leaves the terminal as it is.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
      continue;
    }
    char escape[5];
    std::snprintf(escape, sizeof escape, "\\x%02x", byte);
    out += escape;
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
