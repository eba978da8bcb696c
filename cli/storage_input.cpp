#include "cli/storage_input.h"

namespace planwright::cli {

constexpr std::size_t kHashDigits = 12;

std::string storage_path(const Settings& settings) {
  const Setting* path = settings.find(Table::storage, "storage");
  return path == nullptr ? "planwright.db" : path->text;
}

std::string given_study(const Settings& settings) {
  const Setting* name = settings.find(Table::storage, "study");
  return name == nullptr ? "" : name->text;
}

std::string study_name(const Settings& settings, const Problem& problem) {
  const std::string given = given_study(settings);
  return given.empty() ? problem_hash(problem).substr(0, kHashDigits) : given;
}

}  // namespace planwright::cli
