#include "launcher/shell.h"

#include <string_view>

#include "launcher/quote.h"

namespace planwright::launcher {
namespace {

std::string shell_word(const std::string& word) {
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
  for (const auto& [name, value] : environment) line += name + "=" + shell_word(value) + " ";
  for (const std::string& word : argv) line += shell_word(word) + " ";
  if (!line.empty()) line.pop_back();
  return line;
}

std::string shell_script(const std::vector<std::string>& comments,
                         const std::vector<std::string>& argv,
                         const std::map<std::string, std::string>& environment) {
  std::string text = "#!/bin/sh\n" + comment_lines(comments);
  for (const auto& [name, value] : environment) {
    text += "export " + name + "=" + shell_word(value) + "\n";
  }
  return text + "exec " + shell_line(argv) + "\n";
}

}  // namespace planwright::launcher
