#include "estimator/spec/flat_layout.h"

#include <iterator>

namespace planwright {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatLayout flat_layout(const ModelSpec& model, int ranks, std::int64_t bucket_elements) {
  FlatLayout layout;
  layout.ranks = ranks;
  for (auto& tensor : parameter_tensors(model)) {
    const std::int64_t numel = tensor.numel();
    layout.tensors.push_back({std::move(tensor), 0, numel, 0});
  }

  FlatBucket open{0, 0};
  const auto close = [&] {
    open.numel = round_up(open.numel, ranks * kFlatAlignment);
    layout.buckets.push_back(open);
    open = {open.begin + open.numel, 0};
  };
  for (auto tensor = layout.tensors.rbegin(); tensor != layout.tensors.rend(); ++tensor) {
    tensor->offset = open.begin + open.numel;
    tensor->bucket = static_cast<int>(layout.buckets.size());
    open.numel += round_up(tensor->numel, kFlatAlignment);
    if (open.numel >= bucket_elements) close();
  }
  if (open.numel > 0) close();
  layout.numel = open.begin;
  return layout;
}

}  // namespace planwright
