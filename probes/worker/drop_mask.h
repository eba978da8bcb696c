#pragma once

#include <cstdint>

namespace planwright::worker {

/// Elements `first` and on of one stream, each dropped with `probability`.
struct DropMask {
  double probability = 0;
  std::uint64_t stream = 0;
  std::int64_t first = 0;
};

}  // namespace planwright::worker
