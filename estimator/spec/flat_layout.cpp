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
    const auto partial = std::stable_partition(
        open_.begin(), open_.end(), [](const FlatTensor* each) { return !each->partial_gradient; });
    FlatBucket bucket;
    bucket.begin = layout_.numel;
    bucket.shared = shared;
    bucket.partial_begin = place(open_.begin(), partial, bucket.begin);
    const std::int64_t end = place(partial, open_.end(), bucket.partial_begin);
    bucket.partial_numel = end - bucket.partial_begin;
    bucket.numel = round_up(end - bucket.begin, layout_.ranks * kFlatAlignment);
    bucket.opened_by = open_.front()->first_unit;
    bucket.completed_by = open_.front()->unit;
    for (const FlatTensor* each : open_) {
      bucket.opened_by = std::max(bucket.opened_by, each->first_unit);
      bucket.completed_by = std::min(bucket.completed_by, each->unit);
    }
    layout_.buckets.push_back(bucket);
    layout_.numel = bucket.begin + bucket.numel;
    open_.clear();
    elements_ = 0;
  }

 private:
  using Open = std::vector<FlatTensor*>;

  /// Puts tensors one behind the other from `offset` on; returns where the last one ends.
  std::int64_t place(Open::iterator begin, Open::iterator end, std::int64_t offset) const {
    for (auto each = begin; each != end; ++each) {
      (*each)->offset = offset;
      (*each)->bucket = static_cast<int>(layout_.buckets.size());
      offset += round_up((*each)->numel, kFlatAlignment);
    }
    return offset;
  }

  FlatLayout& layout_;
  const Bucketing& bucketing_;
  Open open_;
  std::int64_t elements_ = 0;
};

/// By unit, the buckets of its tensors in forward order, each once.
std::vector<std::vector<std::size_t>> buckets_read(const std::vector<FlatTensor>& tensors,
                                                   std::size_t units) {
  std::vector<std::vector<std::size_t>> read(units);
  for (const FlatTensor& tensor : tensors) {
    const auto bucket = static_cast<std::size_t>(tensor.bucket);
    for (const std::int64_t unit : {tensor.unit, tensor.first_unit}) {
      auto& buckets = read[static_cast<std::size_t>(unit)];
      if (std::find(buckets.begin(), buckets.end(), bucket) == buckets.end()) {
        buckets.push_back(bucket);
      }
    }
  }
  return read;
}

bool belongs(const PartTensor& tensor, Experts experts) {
  if (experts == Experts::with_all) return true;
  return (tensor.tensor.experts > 1) == (experts == Experts::alone);
}

/// Of the tensors that are trained, or of those that are not. `shared`: the two end stages sum the
/// gradient of a matrix.
FlatLayout lay_out(const ModelSpec& model, const ModelPart& part, bool trained, bool shared,
                   int ranks, const Bucketing& bucketing, Experts experts) {
  FlatLayout layout;
  layout.ranks = ranks;
  for (PartTensor& tensor : part_tensors(model, part)) {
    if (tensor.tensor.trained != trained || !belongs(tensor, experts)) continue;
    const std::int64_t numel = tensor.tensor.numel();
    layout.tensors.push_back({std::move(tensor), 0, numel, 0});
  }
  LayoutBuilder builder(layout, bucketing);
  for (auto tensor = layout.tensors.rbegin(); tensor != layout.tensors.rend(); ++tensor) {
    builder.add(*tensor, shared && tensor->tensor.name == "embedding");
  }
  builder.close(false);
  layout.read_by = buckets_read(layout.tensors, static_cast<std::size_t>(part.head_unit()) + 1);
  return layout;
}

}  // namespace

FlatLayout flat_layout(const ModelSpec& model, const ModelPart& part, int ranks,
                       const Bucketing& bucketing, Experts experts) {
  return lay_out(model, part, true, shares_embedding(model, part) && !model.lora.freezes(), ranks,
                 bucketing, experts);
}

FlatLayout frozen_layout(const ModelSpec& model, const ModelPart& part, int ranks) {
  return lay_out(model, part, false, false, ranks, {.elements = 0, .by_unit = true},
                 Experts::with_all);
}

FlatLayout frozen_layout(const ModelSpec& model, const Candidate& candidate, int rank) {
  return frozen_layout(model, model_part(model, candidate, rank),
                       candidate.zero == 3 ? shard_ranks(candidate) : 1);
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
