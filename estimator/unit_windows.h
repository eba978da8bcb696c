#pragma once

#include <cstdint>
#include <vector>

#include "estimator/stage_script.h"

/// What data parallelism does around the units of a stage.
namespace planwright::estimator {

/// Bytes of a bucket of gradients while it is filled and while it is reduced.
struct BucketBytes {
  std::int64_t made = 0, reduced = 0;
  bool operator==(const BucketBytes&) const = default;
};

/// Around one unit: bytes of each bucket, in order.
struct UnitWindows {
  std::vector<std::int64_t> gathered;  ///< weights, whenever the unit is used
  std::vector<std::int64_t> kept;      ///< weights, from its forward to the end of its backward
  std::vector<std::int64_t> opened;    ///< gradients that it is the first to add to
  std::vector<BucketBytes> completed;  ///< gradients that it completes
  std::int64_t growing = 0;            ///< gradients that its first backward makes
  bool operator==(const UnitWindows&) const = default;
};

/// By unit.
std::vector<UnitWindows> windows_of(const StageStep& step);

}  // namespace planwright::estimator
