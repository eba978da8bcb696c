#pragma once

#include <cstdint>

namespace planwright::worker {

/// A well-mixed 64-bit number for each (stream, index). Source of the mixing: splitmix64's
/// finaliser, Steele, Lea, Flood (2014).
constexpr std::uint64_t counter_hash(std::uint64_t stream, std::uint64_t index) {
  std::uint64_t x = stream + (index + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace planwright::worker
