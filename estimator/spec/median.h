#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace planwright {

/// The middle value, or the mean of the two in the middle. There must be one.
inline double median(std::vector<double> values) {
  if (values.empty()) throw std::logic_error("the median of nothing");
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace planwright
