#include "cli/storage_input.h"

#include <algorithm>
#include <string_view>

namespace planwright::cli {

constexpr std::size_t kHashDigits = 12;
/// What Optuna's own commands want before the path.
constexpr std::string_view kUrl = "sqlite:///";

std::string storage_path(const Settings& settings) {
  const Setting* path = settings.find(Table::storage, "storage");
  if (path == nullptr) return "planwright.db";
  return path->text.starts_with(kUrl) ? path->text.substr(kUrl.size()) : path->text;
}

std::string given_study(const Settings& settings) {
  const Setting* name = settings.find(Table::storage, "study");
  if (name == nullptr) return "";
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(name->text.begin(), name->text.end(), is_control)) {
    refuse(*name, "must be without control characters: it is printed in tables");
  }
  return name->text;
}

std::string study_name(const Settings& settings, const Problem& problem) {
  const std::string given = given_study(settings);
  return given.empty() ? problem_hash(problem).substr(0, kHashDigits) : given;
}

}  // namespace planwright::cli
