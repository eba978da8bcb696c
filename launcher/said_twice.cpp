#include "launcher/said_twice.h"

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

}  // namespace

std::vector<std::string> said_twice(const LaunchConfig& config, const UserCommand& user) {
  const auto all = counted_options(config.command), own = counted_options(user.words);
  std::vector<std::string> twice;
  for (const std::string& word : user.words) {
    const std::string option = option_of(word);
    if (option.empty() || std::find(twice.begin(), twice.end(), option) != twice.end()) continue;
    const std::string name = spelled_alike(option);
    const auto found = all.find(name);
    if (found != all.end() && found->second > own.at(name)) twice.push_back(option);
  }
  return twice;
}

}  // namespace planwright::launcher
