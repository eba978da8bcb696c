#pragma once

#include <compare>
#include <cstdint>

namespace planwright {

/// A number with a unit. Sums and differences keep the unit, a scalar scales it, and the quotient
/// of two equal units is a plain ratio; everything else is spelled out with `.value`.
template <class Tag, class Rep>
struct Unit {
  Rep value{};

  constexpr auto operator<=>(const Unit&) const = default;
  constexpr Unit& operator+=(Unit other) { return value += other.value, *this; }
  constexpr Unit& operator-=(Unit other) { return value -= other.value, *this; }
  friend constexpr Unit operator+(Unit a, Unit b) { return {a.value + b.value}; }
  friend constexpr Unit operator-(Unit a, Unit b) { return {a.value - b.value}; }
  friend constexpr Unit operator*(Unit a, Rep factor) { return {a.value * factor}; }
  friend constexpr Unit operator*(Rep factor, Unit a) { return {a.value * factor}; }
  friend constexpr double operator/(Unit a, Unit b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Bytes = Unit<struct BytesTag, std::int64_t>;
using Tokens = Unit<struct TokensTag, std::int64_t>;
using Seconds = Unit<struct SecondsTag, double>;
using Flops = Unit<struct FlopsTag, double>;
using FlopsPerSecond = Unit<struct FlopsPerSecondTag, double>;
using BytesPerSecond = Unit<struct BytesPerSecondTag, double>;

/// Sizes that a person made up may be larger than what can be counted, and are then as much as can:
/// 2^60 bytes, of which several can be added.
constexpr Bytes countable_bytes(double bytes) {
  constexpr double kMost = 1152921504606846976.0;
  return {static_cast<std::int64_t>(bytes < kMost ? bytes : kMost)};
}

constexpr double kGiB = 1073741824.0;

/// A size in GiB (2^30 bytes), the unit in which memory is shown to people.
constexpr double gib(Bytes bytes) { return static_cast<double>(bytes.value) / kGiB; }

}  // namespace planwright
