#include "cli/setting.h"

#include <fmt/core.h>

#include <charconv>
#include <utility>

namespace planwright::cli {

void refuse(const Setting& setting, std::string rule, std::string nearest) {
  throw InputError({setting.file, setting.key, setting.text, std::move(rule), std::move(nearest)});
}

std::int64_t parse_integer(const Setting& setting, std::int64_t least) {
  std::int64_t value = 0;
  const char* end = setting.text.data() + setting.text.size();
  const auto [stop, error] = std::from_chars(setting.text.data(), end, value);
  if (error == std::errc::result_out_of_range && stop == end) {
    refuse(setting, "has more digits than any number that is meant here");
  }
  if (error != std::errc{} || stop != end) refuse(setting, "must be a whole number");
  if (value < least) refuse(setting, fmt::format("must be at least {}", least));
  return value;
}

int parse_count(const Setting& setting, int least) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t value = parse_integer(setting, least);
  if (value > kMost) refuse(setting, fmt::format("must be at most {}", kMost));
  return static_cast<int>(value);
}

bool parse_toggle(const Setting& setting) {
  if (setting.text == "on") return true;
  if (setting.text == "off") return false;
  refuse(setting, "must be on or off");
}

}  // namespace planwright::cli
