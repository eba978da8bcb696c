#include "launcher/logs/field.h"

#include <algorithm>
#include <array>

namespace planwright::launcher {
namespace {

struct Row {
  Field field;
  std::string_view name;
  Quantity quantity;
};

/// In the order of the enum. A name of seconds is followed by `_time` or a unit, one of bytes by
/// nothing or a unit.
constexpr std::array<Row, kFieldCount> kRows{{
    {Field::number, "number", Quantity::plain},
    {Field::step, "step", Quantity::whole},
    {Field::steps, "steps", Quantity::whole},
    {Field::rank, "rank", Quantity::whole},
    {Field::loss, "loss", Quantity::plain},
    {Field::step_time, "step", Quantity::seconds},
    {Field::part_time, "part", Quantity::seconds},
    {Field::mean_step_time, "mean_step", Quantity::seconds},
    {Field::steps_per_s, "steps_per_s", Quantity::plain},
    {Field::mean_steps_per_s, "mean_steps_per_s", Quantity::plain},
    {Field::tokens_per_s, "tokens_per_s", Quantity::plain},
    {Field::tokens_per_s_per_device, "tokens_per_s_per_device", Quantity::plain},
    {Field::mean_tokens_per_s, "mean_tokens_per_s", Quantity::plain},
    {Field::samples_per_s, "samples_per_s", Quantity::plain},
    {Field::mean_samples_per_s, "mean_samples_per_s", Quantity::plain},
    {Field::allocated, "allocated", Quantity::bytes},
    {Field::allocated_peak, "allocated_peak", Quantity::bytes},
    {Field::allocated_peak_part, "allocated_peak_part", Quantity::bytes},
    {Field::reserved, "reserved", Quantity::bytes},
    {Field::reserved_peak, "reserved_peak", Quantity::bytes},
    {Field::device_used, "device_used", Quantity::bytes},
    {Field::allocation_retries, "allocation_retries", Quantity::whole},
    {Field::oom_requested, "oom_requested", Quantity::bytes},
    {Field::oom_allocated, "oom_allocated", Quantity::bytes},
    {Field::oom_reserved, "oom_reserved", Quantity::bytes},
    {Field::oom_unallocated, "oom_unallocated", Quantity::bytes},
    {Field::oom_free, "oom_free", Quantity::bytes},
    {Field::oom_capacity, "oom_capacity", Quantity::bytes},
    {Field::oom_device, "oom_device", Quantity::whole},
}};

struct UnitRow {
  LogUnit unit;
  std::string_view word;
  Quantity quantity;
  double decimal;
  double binary;
};

constexpr double kKi = 1024.0;
constexpr std::array<UnitRow, 13> kUnits{{
    {LogUnit::bare, "", Quantity::plain, 1, 1},
    {LogUnit::us, "us", Quantity::seconds, 1e-6, 1e-6},
    {LogUnit::ms, "ms", Quantity::seconds, 1e-3, 1e-3},
    {LogUnit::s, "s", Quantity::seconds, 1, 1},
    {LogUnit::bytes, "bytes", Quantity::bytes, 1, 1},
    {LogUnit::kb, "kb", Quantity::bytes, 1e3, kKi},
    {LogUnit::kib, "kib", Quantity::bytes, kKi, kKi},
    {LogUnit::mb, "mb", Quantity::bytes, 1e6, kKi* kKi},
    {LogUnit::mib, "mib", Quantity::bytes, kKi* kKi, kKi* kKi},
    {LogUnit::gb, "gb", Quantity::bytes, 1e9, kKi* kKi* kKi},
    {LogUnit::gib, "gib", Quantity::bytes, kKi* kKi* kKi, kKi* kKi* kKi},
    {LogUnit::tb, "tb", Quantity::bytes, 1e12, kKi* kKi* kKi* kKi},
    {LogUnit::tib, "tib", Quantity::bytes, kKi* kKi* kKi* kKi, kKi* kKi* kKi* kKi},
}};

struct Synonym {
  std::string_view word;
  LogUnit unit;
};
constexpr Synonym kSynonyms[] = {
    {"usec", LogUnit::us},         {"msec", LogUnit::ms},   {"millisecond", LogUnit::ms},
    {"milliseconds", LogUnit::ms}, {"sec", LogUnit::s},     {"secs", LogUnit::s},
    {"second", LogUnit::s},        {"seconds", LogUnit::s}, {"b", LogUnit::bytes},
    {"byte", LogUnit::bytes},      {"k", LogUnit::kib},     {"m", LogUnit::mib},
    {"g", LogUnit::gib},
};

const UnitRow& row(LogUnit unit) { return kUnits[static_cast<std::size_t>(unit)]; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_letters(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

LogUnit unit_of_word(std::string_view text, Quantity quantity) {
  for (const UnitRow& each : kUnits) {
    if (each.quantity == quantity && same_letters(text, each.word)) return each.unit;
  }
  for (const Synonym& each : kSynonyms) {
    if (row(each.unit).quantity == quantity && same_letters(text, each.word)) return each.unit;
  }
  return LogUnit::bare;
}

/// The unit that follows a field's own name: "_ms" of "step_ms".
std::optional<LogUnit> unit_of_suffix(std::string_view suffix, Quantity quantity) {
  if (quantity == Quantity::seconds && suffix == "_time") return LogUnit::bare;
  if (quantity == Quantity::bytes && suffix.empty()) return LogUnit::bare;
  if (suffix.size() < 2 || suffix[0] != '_') return std::nullopt;
  for (const UnitRow& each : kUnits) {
    if (each.quantity == quantity && suffix.substr(1) == each.word) return each.unit;
  }
  return std::nullopt;
}

bool takes_units(const Row& each) {
  return each.quantity == Quantity::seconds || each.quantity == Quantity::bytes;
}

}  // namespace

Quantity quantity(Field field) { return kRows[static_cast<std::size_t>(field)].quantity; }

double unit_factor(LogUnit unit, bool binary) {
  return binary ? row(unit).binary : row(unit).decimal;
}

std::string_view unit_word(LogUnit unit) {
  constexpr std::array<std::string_view, 13> kShown{"",   "us",  "ms", "s",   "bytes", "KB", "KiB",
                                                    "MB", "MiB", "GB", "GiB", "TB",    "TiB"};
  return kShown[static_cast<std::size_t>(unit)];
}

UnitInText unit_at(std::string_view text, Quantity quantity) {
  std::size_t end = 0;
  while (end < text.size() && lower(text[end]) >= 'a' && lower(text[end]) <= 'z') ++end;
  if (end == 0) return {};
  const LogUnit unit = unit_of_word(text.substr(0, end), quantity);
  return {unit, unit == LogUnit::bare ? 0 : end};
}

std::optional<FieldName> field_of_name(std::string_view name) {
  for (const Row& each : kRows) {
    if (!takes_units(each)) {
      if (name == each.name) return FieldName{each.field};
    } else if (name.substr(0, each.name.size()) == each.name) {
      const auto unit = unit_of_suffix(name.substr(each.name.size()), each.quantity);
      if (unit) return FieldName{each.field, *unit};
    }
  }
  return std::nullopt;
}

std::vector<std::string> field_names() {
  std::vector<std::string> names;
  for (const Row& each : kRows) {
    const std::string name(each.name);
    if (!takes_units(each)) names.push_back(name);
    if (each.quantity == Quantity::seconds) names.push_back(name + "_time");
    if (each.quantity == Quantity::bytes) names.push_back(name);
    for (const UnitRow& unit : kUnits) {
      if (takes_units(each) && unit.quantity == each.quantity) {
        names.push_back(name + "_" + std::string(unit.word));
      }
    }
  }
  return names;
}

}  // namespace planwright::launcher
