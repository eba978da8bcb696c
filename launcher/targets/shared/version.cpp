#include "launcher/targets/shared/version.h"

#include <charconv>

namespace planwright::targets {

Version target_version(const Problem& problem) {
  const std::string& text = problem.target_version;
  const char* const end = text.data() + text.size();
  Version version;
  const auto [point, error] = std::from_chars(text.data(), end, version.major);
  if (error != std::errc() || point == end || *point != '.') return version;
  std::from_chars(point + 1, end, version.minor);
  return version;
}

}  // namespace planwright::targets
