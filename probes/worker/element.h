#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cstdint>
#include <type_traits>

/// The storage types of the inner loops, double, float, bfloat16 and half, and how their elements
/// are widened and rounded: without the branches of libtorch's own conversions, which keep a loop
/// from being vectorised, and by integer arithmetic, which every instruction set has.
namespace planwright::worker {

/// What a storage type is summed and computed in.
template <class T>
using Accumulation = std::conditional_t<std::is_same_v<T, double>, double, float>;

namespace element {

/// `if_true` where the condition holds, else `if_false`; a select and no jump.
inline std::uint32_t select(bool condition, std::uint32_t if_true, std::uint32_t if_false) {
  return condition ? if_true : if_false;
}

inline std::uint16_t bfloat16_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  constexpr std::uint32_t kNan = 0x7fc0;
  const std::uint32_t is_nan = -static_cast<std::uint32_t>(x != x);  // all bits or none
  return static_cast<std::uint16_t>((rounded & ~is_nan) | (kNan & is_nan));
}

/// A half's exponent is 5 bits of bias 15: moved into a float's place it is 112 too small, which a
/// product makes good, denormal numbers included. All ones are infinity or NaN.
inline float from_half_bits(std::uint16_t half) {
  const std::uint32_t magnitude = (half & 0x7fffU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t special = select(scaled >= 65536.0F, 0xffU << 23, 0);
  const std::uint32_t sign = (half & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

/// To nearest even. What is below the normal numbers is rounded by an addition that shifts the last
/// bit of a denormal half to that of a float.
inline std::uint16_t half_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits & 0x80000000U, magnitude = bits ^ sign;
  constexpr std::uint32_t kInfinity = 0xffU << 23;
  constexpr std::uint32_t kTooLarge = (127U + 16) << 23;  // 65536
  constexpr std::uint32_t kNormal = (127U - 14) << 23;    // the smallest normal half
  constexpr std::uint32_t kShift = (127U - 15 + 23 - 10 + 1) << 23;
  const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kShift);
  const std::uint32_t denormal = std::bit_cast<std::uint32_t>(shifted) - kShift;
  const std::uint32_t odd = (magnitude >> 13) & 1;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfff + odd) >> 13;
  const std::uint32_t special = select(magnitude > kInfinity, 0x7e00, 0x7c00);
  const std::uint32_t finite = select(magnitude < kNormal, denormal, normal);
  return static_cast<std::uint16_t>(select(magnitude >= kTooLarge, special, finite) | sign >> 16);
}

}  // namespace element

template <class T>
inline Accumulation<T> wide(T x) {
  if constexpr (std::is_same_v<T, c10::Half>) {
    return element::from_half_bits(x.x);
  } else {
    return static_cast<Accumulation<T>>(x);
  }
}

/// Rounds to the storage type, to nearest even.
template <class T>
inline T narrow(Accumulation<T> x) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return T(element::bfloat16_bits(x), c10::BFloat16::from_bits());
  } else if constexpr (std::is_same_v<T, c10::Half>) {
    return T(element::half_bits(x), c10::Half::from_bits());
  } else {
    return x;
  }
}

/// Compiles a loop for several instruction sets; the best that there is is chosen at start.
#define FOR_EACH_ISA __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

}  // namespace planwright::worker
