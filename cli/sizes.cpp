#include "cli/sizes.h"

#include <fmt/core.h>
#include <strings.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

namespace planwright::cli {
namespace {

struct SizeUnit {
  std::string_view name;
  double bytes;
};

constexpr std::array<SizeUnit, 9> kSizeUnits{{{"B", 1},
                                              {"KB", 1e3},
                                              {"KiB", 0x1p10},
                                              {"MB", 1e6},
                                              {"MiB", 0x1p20},
                                              {"GB", 1e9},
                                              {"GiB", 0x1p30},
                                              {"TB", 1e12},
                                              {"TiB", 0x1p40}}};

const SizeUnit* find_unit(std::string_view name) {
  for (const SizeUnit& unit : kSizeUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

/// A decimal number and what follows it.
struct Amount {
  double number = 0;
  std::string_view digits;
  std::string_view rest;
};

/// Nothing if the text does not start with a digit.
std::optional<Amount> split_amount(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  Amount amount;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), amount.number,
                                             std::chars_format::fixed);
  if (error != std::errc{}) return std::nullopt;
  amount.digits = text.substr(0, static_cast<std::size_t>(stop - text.data()));
  amount.rest = text.substr(amount.digits.size());
  return amount;
}

/// With the unit that differs in capitals only, else the one with the fewest edits.
std::string nearest_size(const Amount& amount) {
  const std::string unit(amount.rest);
  std::vector<std::string> names;
  for (const SizeUnit& each : kSizeUnits) {
    names.emplace_back(each.name);
    if (strcasecmp(unit.c_str(), names.back().c_str()) == 0) {
      return fmt::format("{}{}", amount.digits, names.back());
    }
  }
  return nearest_word(unit, names, amount.digits);
}

bool is_bare_prefix(std::string_view unit) {
  return unit.size() == 1 && std::string_view("KMGT").find(unit) != std::string_view::npos;
}

[[noreturn]] void refuse_ambiguous(const Setting& setting, const Amount& amount) {
  const std::string decimal = fmt::format("{}B", amount.rest);
  const std::string binary = fmt::format("{}iB", amount.rest);
  refuse(setting,
         fmt::format("is ambiguous: write {0}{1} ({2:.0f} bytes) or {0}{3} ({4:.0f} bytes)",
                     amount.digits, decimal, amount.number * find_unit(decimal)->bytes, binary,
                     amount.number * find_unit(binary)->bytes));
}

[[noreturn]] void refuse_unit(const Setting& setting, const Amount& amount) {
  if (is_bare_prefix(amount.rest)) refuse_ambiguous(setting, amount);
  std::vector<std::string> names;
  for (const SizeUnit& unit : kSizeUnits) names.emplace_back(unit.name);
  if (amount.rest.empty()) {
    refuse(setting, "needs a unit: " + join_words(names), fmt::format("{}GiB", amount.digits));
  }
  refuse(setting,
         fmt::format("has the unknown unit {}, none of {}", amount.rest, join_words(names)),
         nearest_size(amount));
}

std::optional<double> seconds_in(char unit) {
  switch (unit) {
    case 's':
      return 1.0;
    case 'm':
      return 60.0;
    case 'h':
      return 3600.0;
    case 'd':
      return 86400.0;
    default:
      return std::nullopt;
  }
}

}  // namespace

Bytes parse_size(const Setting& setting) {
  const auto amount = split_amount(setting.text);
  if (!amount) refuse(setting, "must be a size such as 16GiB or 16GB");
  const SizeUnit* unit = find_unit(amount->rest);
  if (unit == nullptr) refuse_unit(setting, *amount);
  const double bytes = amount->number * unit->bytes;
  if (bytes < 1) refuse(setting, "must be more than zero");
  if (bytes > 0x1p60) refuse(setting, "must be at most 2^60 bytes");
  return Bytes{std::llround(bytes)};
}

Headroom parse_headroom(const Setting& setting) {
  const auto amount = split_amount(setting.text);
  if (!amount) refuse(setting, "must be a share such as 5% or a size such as 2GiB");
  if (amount->rest != "%") return {.fraction = 0, .bytes = parse_size(setting)};
  if (amount->number >= 100) refuse(setting, "must be less than 100%");
  return {.fraction = amount->number / 100, .bytes = {}};
}

double parse_probability(const Setting& setting) {
  const auto amount = split_amount(setting.text);
  if (!amount || !amount->rest.empty()) {
    refuse(setting, "must be a decimal number from 0 to below 1, such as 0.1");
  }
  if (amount->number >= 1) refuse(setting, "must be a probability below 1");
  return amount->number;
}

Seconds parse_duration(const Setting& setting) {
  constexpr const char* kExample = "must be a time such as 45s, 30m or 1h30m";
  double total = 0;
  std::string_view rest = setting.text;
  do {
    const auto amount = split_amount(rest);
    if (!amount) refuse(setting, kExample);
    if (amount->rest.empty()) refuse(setting, "needs a unit: s, m, h or d", setting.text + "s");
    const auto unit = seconds_in(amount->rest.front());
    if (!unit) refuse(setting, kExample);
    total += amount->number * *unit;
    rest = amount->rest.substr(1);
  } while (!rest.empty());
  if (total <= 0) refuse(setting, "must be more than zero");
  return Seconds{total};
}

BytesPerSecond parse_rate(const Setting& setting) {
  constexpr std::string_view kPerSecond = "/s";
  const std::size_t slash = setting.text.rfind(kPerSecond);
  if (slash == std::string::npos || slash + kPerSecond.size() != setting.text.size()) {
    refuse(setting, "must be a rate such as 900GB/s");
  }
  const Bytes each = parse_size({setting.text.substr(0, slash), setting.file, setting.key});
  return BytesPerSecond{static_cast<double>(each.value)};
}

}  // namespace planwright::cli
