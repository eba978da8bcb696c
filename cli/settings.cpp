#include "cli/settings.h"

namespace planwright::cli {

void Settings::set(Table table, std::string_view name, Setting setting) {
  values_[{table, std::string(name)}] = std::move(setting);
}

const Setting* Settings::find(Table table, std::string_view name) const {
  const auto found = values_.find({table, std::string(name)});
  return found == values_.end() ? nullptr : &found->second;
}

bool Settings::marked(Table table, std::string_view name) const {
  const Setting* setting = find(table, name);
  return setting != nullptr && parse_toggle(*setting);
}

bool Settings::has_any(Table table) const {
  const auto first = values_.lower_bound({table, std::string()});
  return first != values_.end() && first->first.first == table;
}

std::vector<Setting> split_list(const Setting& list) {
  std::vector<Setting> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = std::min(list.text.find(',', begin), list.text.size());
    if (comma == begin) refuse(list, "must be values separated by single commas");
    parts.push_back({list.text.substr(begin, comma - begin), list.file, list.key});
    if (comma == list.text.size()) return parts;
    begin = comma + 1;
  }
}

std::map<std::string, std::string> parse_pairs(const Setting& setting) {
  std::map<std::string, std::string> pairs;
  for (const Setting& part : split_list(setting)) {
    const std::size_t equals = part.text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      refuse(setting, "must be NAME=VALUE pairs separated by commas");
    }
    const std::string name = part.text.substr(0, equals);
    if (!pairs.emplace(name, part.text.substr(equals + 1)).second) {
      refuse(setting, "has " + name + " twice");
    }
  }
  return pairs;
}

}  // namespace planwright::cli
