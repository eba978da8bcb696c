#include "estimator/spec/model_spec.h"

#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "estimator/spec/model_part.h"

namespace planwright {
std::int64_t ModelSpec::layers() const {
  std::int64_t sum = 0;
  for (const auto& run : runs) sum += run.count;
  return sum;
}

const BlockSpec& ModelSpec::block(std::int64_t layer) const {
  for (const auto& run : runs) {
    if (layer < run.count) return run.block;
    layer -= run.count;
  }
  throw std::out_of_range("ModelSpec::block: no such layer");
}

std::int64_t ParameterTensor::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<ParameterTensor> parameter_tensors(const ModelSpec& model) {
  std::vector<ParameterTensor> out;
  for (PartTensor& each : part_tensors(model, whole_model(model))) {
    out.push_back(std::move(each.tensor));
  }
  return out;
}

ParameterCounts parameter_counts(const ModelSpec& model) {
  ParameterCounts counts;
  for (const auto& tensor : parameter_tensors(model)) {
    counts.total += tensor.numel();
    counts.trainable += tensor.trained ? tensor.numel() : 0;
    counts.active += tensor.numel() / tensor.experts * tensor.active_experts;
  }
  return counts;
}

}  // namespace planwright
