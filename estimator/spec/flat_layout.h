#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/model_part.h"
#include "estimator/spec/model_spec.h"

namespace planwright {

/// Where one parameter stands in the flat buffers, in elements.
struct FlatTensor : PartTensor {
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  int bucket = 0;
};

/// A contiguous stretch of the flat buffers that is reduced by one collective. `numel` is a
/// multiple of ranks × kFlatAlignment, so that it divides evenly among the ranks.
struct FlatBucket {
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  /// Within it, the tensors of which each tensor rank makes a part of the gradient.
  std::int64_t partial_begin = 0;
  std::int64_t partial_numel = 0;
  std::int64_t opened_by = 0;     ///< the unit whose backward is the first to add to it
  std::int64_t completed_by = 0;  ///< the unit whose backward completes it
  bool shared = false;            ///< the matrix that the first and the last stage both hold
  bool operator==(const FlatBucket&) const = default;
};

/// Trained parameters, gradients and optimizer states as flat buffers of equal geometry. With ZeRO
/// rank r owns the r-th of `ranks` equal slices of every bucket.
struct FlatLayout {
  std::vector<FlatTensor> tensors;  ///< in forward order
  std::vector<FlatBucket> buckets;  ///< in the order in which gradients become ready
  /// By unit, the buckets with a weight that it reads, in forward order.
  std::vector<std::vector<std::size_t>> read_by;
  std::int64_t numel = 0;  ///< padding included
  int ranks = 1;

  /// Elements that one rank owns, over all buckets: numel / ranks.
  std::int64_t shard_numel() const { return numel / ranks; }
};

/// Every tensor starts at a multiple of this many elements: 64 bytes in fp32, one cache line.
constexpr std::int64_t kFlatAlignment = 16;

/// When a bucket is closed.
struct Bucketing {
  std::int64_t elements = 0;  ///< with the tensor that brings it to this many or more
  bool by_unit = false;       ///< with its unit, whatever its size
};

/// Experts may have buffers of their own, as other ranks hold them alike.
enum class Experts { with_all, left_out, alone };

/// Lays a part's trained tensors out in reverse forward order (the order in which backward
/// completes their gradients), each padded to kFlatAlignment, and every bucket to a multiple of
/// ranks × kFlatAlignment; within a bucket those with partial gradients come last. The shared
/// matrix of a tied head is completed by the embedding, so it stands last as the embedding does;
/// held by two stages it is a bucket of its own, so that both lay it out alike.
FlatLayout flat_layout(const ModelSpec& model, const ModelPart& part, int ranks,
                       const Bucketing& bucketing, Experts experts = Experts::with_all);

/// The part's frozen tensors, which have no gradients: laid out for their gathering alone, by
/// units.
FlatLayout frozen_layout(const ModelSpec& model, const ModelPart& part, int ranks);
/// What the built-in runtime lays out for a rank: sharded with ZeRO 3.
FlatLayout frozen_layout(const ModelSpec& model, const Candidate& candidate, int rank);

/// Of the whole model in one part.
FlatLayout flat_layout(const ModelSpec& model, int ranks, std::int64_t bucket_elements);

/// What the built-in runtime lays out for a rank: sharded as the candidate says, by units with
/// ZeRO 3.
FlatLayout flat_layout(const ModelSpec& model, const Candidate& candidate, int rank,
                       std::int64_t bucket_elements);

}  // namespace planwright
