#include "estimator/spec/flat_layout.h"

#include <algorithm>
#include <utility>

#include "estimator/spec/rank_grid.h"

namespace planwright {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Fills a layout bucket by bucket.
class LayoutBuilder {
 public:
  LayoutBuilder(FlatLayout& layout, const Bucketing& bucketing)
      : layout_(layout), bucketing_(bucketing) {}

  /// The next tensor in backward's order. `alone`: in a bucket of its own.
  void add(FlatTensor& tensor, bool alone) {
    const bool other_unit = !open_.empty() && open_.front()->unit != tensor.unit;
    if (alone || (bucketing_.by_unit && other_unit)) close(false);
    open_.push_back(&tensor);
    elements_ += round_up(tensor.numel, kFlatAlignment);
    if (alone || (!bucketing_.by_unit && elements_ >= bucketing_.elements)) close(alone);
  }

  void close(bool shared) {
    if (open_.empty()) return;
    std::stable_partition(open_.begin(), open_.end(),
                          [](const FlatTensor* each) { return !each->partial_gradient; });
    FlatBucket bucket;
    bucket.begin = layout_.numel;
    bucket.shared = shared;
    bucket.opened_by = open_.front()->first_unit;
    bucket.completed_by = open_.front()->unit;
    std::int64_t end = bucket.begin;
    bucket.partial_begin = -1;
    for (FlatTensor* each : open_) {
      if (each->partial_gradient && bucket.partial_begin < 0) bucket.partial_begin = end;
      each->offset = end;
      each->bucket = static_cast<int>(layout_.buckets.size());
      end += round_up(each->numel, kFlatAlignment);
      bucket.opened_by = std::max(bucket.opened_by, each->first_unit);
      bucket.completed_by = std::min(bucket.completed_by, each->unit);
    }
    if (bucket.partial_begin < 0) bucket.partial_begin = end;
    bucket.partial_numel = end - bucket.partial_begin;
    bucket.numel = round_up(end - bucket.begin, layout_.ranks * kFlatAlignment);
    layout_.buckets.push_back(bucket);
    layout_.numel = bucket.begin + bucket.numel;
    open_.clear();
    elements_ = 0;
  }

 private:
  FlatLayout& layout_;
  const Bucketing& bucketing_;
  std::vector<FlatTensor*> open_;
  std::int64_t elements_ = 0;
};

}  // namespace

FlatLayout flat_layout(const ModelSpec& model, const ModelPart& part, int ranks,
                       const Bucketing& bucketing) {
  FlatLayout layout;
  layout.ranks = ranks;
  for (PartTensor& tensor : part_tensors(model, part)) {
    const std::int64_t numel = tensor.tensor.numel();
    layout.tensors.push_back({std::move(tensor), 0, numel, 0});
  }
  const bool shared = shares_embedding(model, part);
  LayoutBuilder builder(layout, bucketing);
  for (auto tensor = layout.tensors.rbegin(); tensor != layout.tensors.rend(); ++tensor) {
    builder.add(*tensor, shared && tensor->tensor.name == "embedding");
  }
  builder.close(false);
  return layout;
}

FlatLayout flat_layout(const ModelSpec& model, int ranks, std::int64_t bucket_elements) {
  return flat_layout(model, whole_model(model), ranks, {.elements = bucket_elements});
}

FlatLayout flat_layout(const ModelSpec& model, const Candidate& candidate, int rank,
                       std::int64_t bucket_elements) {
  return flat_layout(model, model_part(model, candidate, rank), shard_ranks(candidate),
                     {.elements = bucket_elements, .by_unit = candidate.zero == 3});
}

}  // namespace planwright
