#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/flat_layout.h"

namespace planwright {

/// Elements of Adafactor's second moment of one tensor: a statistic per row and one per column of a
/// matrix; a vector's is kept whole. Source: Shazeer, Stern (2018), algorithms 4 and 5.
std::int64_t factored_elements(const std::vector<std::int64_t>& shape);

/// The same of all tensors of the layout, one after the other without padding.
std::int64_t factored_elements(const FlatLayout& layout);

}  // namespace planwright
