#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "launcher/logs/field.h"
#include "launcher/logs/pattern.h"

namespace planwright::launcher {

/// A figure in seconds, bytes or as it is, and how it was stated.
struct Stated {
  double value = 0;
  double number = 0;
  LogUnit unit = LogUnit::bare;
};

/// A set of fields, a bit for each.
using FieldSet = std::uint32_t;
static_assert(kFieldCount <= 32);
constexpr FieldSet field_bit(Field field) { return FieldSet{1} << static_cast<unsigned>(field); }

/// The figures of one line, of each field the first. Parts add up if one pattern has found them.
class LineFigures {
 public:
  void clear() { known_ = 0; }
  FieldSet known() const { return known_; }

  /// What one pattern has found.
  void add(const Figure* figures, std::size_t count, bool binary_units);

  /// Null if it is not known.
  const Stated* find(Field field) const {
    return (known_ & field_bit(field)) != 0 ? &values_[static_cast<std::size_t>(field)] : nullptr;
  }
  std::optional<double> value(Field field) const {
    const Stated* const stated = find(field);
    return stated ? std::optional(stated->value) : std::nullopt;
  }
  std::optional<std::int64_t> whole(Field field) const {
    const Stated* const stated = find(field);
    return stated ? std::optional(static_cast<std::int64_t>(stated->value)) : std::nullopt;
  }

 private:
  std::array<Stated, kFieldCount> values_{};
  FieldSet known_ = 0;
};

}  // namespace planwright::launcher
