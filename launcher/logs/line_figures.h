#pragma once

#include <array>
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

/// The figures of one line, of each field the first. Parts add up if one pattern has found them.
class LineFigures {
 public:
  void clear() { *this = {}; }
  bool empty() const { return count_ == 0; }

  /// What one pattern has found.
  void add(const Figure* figures, std::size_t count, bool binary_units);

  const std::optional<Stated>& operator[](Field field) const {
    return values_[static_cast<std::size_t>(field)];
  }
  std::optional<double> value(Field field) const {
    const auto& stated = (*this)[field];
    return stated ? std::optional(stated->value) : std::nullopt;
  }
  std::optional<std::int64_t> whole(Field field) const {
    const auto& stated = (*this)[field];
    return stated ? std::optional(static_cast<std::int64_t>(stated->value)) : std::nullopt;
  }

 private:
  std::array<std::optional<Stated>, kFieldCount> values_{};
  std::size_t count_ = 0;
};

}  // namespace planwright::launcher
