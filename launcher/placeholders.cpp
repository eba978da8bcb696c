#include "launcher/placeholders.h"

#include <algorithm>
#include <stdexcept>

namespace planwright::launcher {
namespace {

/// The name in braces that `text` begins with; empty if it begins with none.
std::string_view name_at(std::string_view text) {
  if (text.empty() || text.front() != '{') return {};
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", 1);
  if (end == std::string_view::npos || end == 1 || text[end] != '}') return {};
  return text.substr(1, end - 1);
}

/// Calls `take_text` with what stands for itself and `take_name` with the names, in their order.
template <class TakeText, class TakeName>
void split(std::string_view text, const TakeText& take_text, const TakeName& take_name) {
  while (!text.empty()) {
    const bool doubled = text.starts_with("{{");
    const std::string_view name = name_at(text.substr(doubled ? 1 : 0));
    if (doubled && !name.empty() && text.substr(name.size() + 3).starts_with('}')) {
      take_text(text.substr(1, name.size() + 2));
      text.remove_prefix(name.size() + 4);
    } else if (!doubled && !name.empty()) {
      take_name(name);
      text.remove_prefix(name.size() + 2);
    } else {
      take_text(text.substr(0, 1));
      text.remove_prefix(1);
    }
  }
}

}  // namespace

std::vector<std::string> placeholders_in(std::string_view text) {
  std::vector<std::string> names;
  split(
      text, [](std::string_view) {},
      [&](std::string_view name) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
      });
  return names;
}

std::string filled(std::string_view text, const NamedValues& values) {
  std::string out;
  split(
      text, [&](std::string_view own) { out += own; },
      [&](std::string_view name) {
        const auto found = std::find_if(values.begin(), values.end(),
                                        [&](const auto& each) { return each.first == name; });
        if (found == values.end()) throw std::out_of_range(std::string(name));
        out += found->second;
      });
  return out;
}

}  // namespace planwright::launcher
