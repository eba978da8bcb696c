#include "studies/time_text.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <ctime>

namespace planwright::studies {
namespace {

constexpr std::int64_t kMicro = 1000000;

/// The number that `text` consists of; nullopt if there is anything but digits.
std::optional<int> digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

constexpr std::string_view kPattern = "dddd-dd-dd dd:dd:dd";

bool matches_pattern(std::string_view text) {
  if (text.size() < kPattern.size()) return false;
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kPattern[i] == 'd' ? !digit : text[i] != kPattern[i]) return false;
  }
  return true;
}

/// ".864594" → 0.864594; "" → 0.
std::optional<double> fraction(std::string_view text) {
  if (text.empty()) return 0.0;
  if (text.front() != '.' || text.size() < 2 || text.size() > 7) return std::nullopt;
  const auto value = digits(text.substr(1));
  if (!value) return std::nullopt;
  return *value / std::pow(10.0, static_cast<double>(text.size() - 1));
}

}  // namespace

std::string time_text(double unix_s) {
  const std::int64_t micros = std::llround(unix_s * static_cast<double>(kMicro));
  const std::int64_t seconds = micros >= 0 ? micros / kMicro : -((-micros + kMicro - 1) / kMicro);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06}", fmt::gmtime(static_cast<std::time_t>(seconds)),
                     micros - seconds * kMicro);
}

std::optional<double> unix_time(std::string_view text) {
  if (!matches_pattern(text)) return std::nullopt;
  const auto part = fraction(text.substr(kPattern.size()));
  if (!part) return std::nullopt;
  const auto field = [&](std::size_t at, std::size_t size) {
    return *digits(text.substr(at, size));
  };
  std::tm time{};
  time.tm_year = field(0, 4) - 1900;
  time.tm_mon = field(5, 2) - 1;
  time.tm_mday = field(8, 2);
  time.tm_hour = field(11, 2);
  time.tm_min = field(14, 2);
  time.tm_sec = field(17, 2);
  return static_cast<double>(::timegm(&time)) + *part;
}

}  // namespace planwright::studies
