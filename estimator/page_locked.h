#pragma once

#include <bit>
#include <cstdint>

namespace planwright::estimator {

/// What torch takes for page-locked memory of that size: each allocation is rounded up to a power
/// of two. Source: pytorch aten/src/ATen/core/CachingHostAllocator.h, allocate @ v2.11.0.
inline std::int64_t page_locked(std::int64_t bytes) {
  if (bytes == 0) return 0;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

}  // namespace planwright::estimator
