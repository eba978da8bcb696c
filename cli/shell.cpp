#include "cli/shell.h"

#include <string_view>

namespace planwright::cli {
namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=+,%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? "'\\''" : std::string(1, each);
  return text + "'";
}

}  // namespace

std::string shell_line(const std::vector<std::string>& argv,
                       const std::map<std::string, std::string>& environment) {
  std::string line;
  for (const auto& [name, value] : environment) line += name + "=" + quoted(value) + " ";
  for (const std::string& word : argv) line += quoted(word) + " ";
  if (!line.empty()) line.pop_back();
  return line;
}

}  // namespace planwright::cli
