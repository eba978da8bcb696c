#pragma once

#include <vector>

namespace planwright::targets {

/// Ranks along an axis. Rules and the devices say which of them a problem can have.
inline const std::vector<int>& rank_degrees() {
  static const std::vector<int> kDegrees{1,  2,  3,  4,  5,  6,  7,  8,  10,
                                         12, 14, 16, 20, 24, 32, 40, 48, 64};
  return kDegrees;
}

}  // namespace planwright::targets
