#include "launcher/user_command.h"

#include <algorithm>

#include "launcher/placeholders.h"

namespace planwright::launcher {

bool is_variable(std::string_view name, std::string_view value) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return !name.empty() && kDigits.find(name.front()) == kDigits.npos &&
         name.find_first_not_of(kPlain) == name.npos && value.find('\0') == value.npos;
}

std::vector<std::string> placeholders_in(const UserCommand& user) {
  std::vector<std::string> names;
  const auto look = [&](const std::string& text) {
    for (std::string& name : placeholders_in(text)) names.push_back(std::move(name));
  };
  std::for_each(user.words.begin(), user.words.end(), look);
  for (const TemplateFile& file : user.templates) look(file.text);
  for (const AxisFlags& flags : user.flags) {
    for (const auto& [value, words] : flags.words) std::for_each(words.begin(), words.end(), look);
  }
  return names;
}

bool names_placeholder(const UserCommand& user, std::string_view name) {
  const std::vector<std::string> names = placeholders_in(user);
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace planwright::launcher
