#include "estimator/spec/factored_moments.h"

#include <numeric>

namespace planwright {

std::int64_t factored_elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{0});
}

std::int64_t factored_elements(const FlatLayout& layout) {
  std::int64_t elements = 0;
  for (const FlatTensor& each : layout.tensors) elements += factored_elements(each.tensor.shape);
  return elements;
}

}  // namespace planwright
