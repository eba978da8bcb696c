#include "launcher/said_twice.h"

#include <toml++/toml.h>

#include <algorithm>
#include <map>

namespace planwright::launcher {
namespace {

/// "--micro-batch-size=4" is --micro-batch-size; empty of what is no option.
std::string option_of(const std::string& word) {
  return word.size() > 2 && word.starts_with("--") ? word.substr(0, word.find('=')) : "";
}

/// Parsers take - and _ for each other, or have one of them.
std::string spelled_alike(std::string option) {
  std::replace(option.begin() + 2, option.end(), '_', '-');
  return option;
}

std::map<std::string, int> counted_options(const std::vector<std::string>& words) {
  std::map<std::string, int> counts;
  for (const std::string& word : words) {
    const std::string option = option_of(word);
    if (!option.empty()) ++counts[spelled_alike(option)];
  }
  return counts;
}

/// "--training.seq_len" of a TOML file that has that key of that table.
bool is_in_file(const std::string& option, const LaunchConfig& config) {
  if (option.find('.') == std::string::npos) return false;
  return std::any_of(config.files.begin(), config.files.end(), [&](const EmittedFile& file) {
    if (!file.path.ends_with(".toml")) return false;
    return static_cast<bool>(toml::parse(file.text).at_path(option.substr(2)));
  });
}

}  // namespace

std::vector<std::string> said_twice(const LaunchConfig& config, const UserCommand& user) {
  const auto all = counted_options(config.command), own = counted_options(user.words);
  std::vector<std::string> twice;
  for (const std::string& word : user.words) {
    const std::string option = option_of(word);
    if (option.empty() || std::find(twice.begin(), twice.end(), option) != twice.end()) continue;
    const std::string name = spelled_alike(option);
    const auto found = all.find(name);
    const bool in_command = found != all.end() && found->second > own.at(name);
    if (in_command || is_in_file(option, config)) twice.push_back(option);
  }
  return twice;
}

}  // namespace planwright::launcher
