#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/spec/model_spec.h"

namespace planwright {

/// Where one parameter stands in the flat buffers, in elements.
struct FlatTensor {
  ParameterTensor tensor;
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  int bucket = 0;
};

/// A contiguous stretch of the flat buffers that is reduced by one collective. `numel` is a
/// multiple of ranks × kFlatAlignment, so that it divides evenly among the ranks.
struct FlatBucket {
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  bool operator==(const FlatBucket&) const = default;
};

/// Parameters, gradients and optimizer states as flat buffers of equal geometry. With ZeRO 1 rank
/// r owns the r-th of `ranks` equal slices of every bucket.
struct FlatLayout {
  std::vector<FlatTensor> tensors;  ///< in forward order
  std::vector<FlatBucket> buckets;  ///< in the order in which gradients become ready
  std::int64_t numel = 0;           ///< padding included
  int ranks = 1;

  /// Elements that one rank owns, over all buckets: numel / ranks.
  std::int64_t shard_numel() const { return numel / ranks; }
};

/// Every tensor starts at a multiple of this many elements: 64 bytes in fp32, one cache line.
constexpr std::int64_t kFlatAlignment = 16;

/// Lays the parameters out in reverse forward order (the order in which backward completes their
/// gradients), each padded to kFlatAlignment; a bucket closes with the tensor that brings it to
/// `bucket_elements` or more and is padded to a multiple of ranks × kFlatAlignment. The shared
/// matrix of a tied head is completed by the embedding, so it stands last as the embedding does.
FlatLayout flat_layout(const ModelSpec& model, int ranks, std::int64_t bucket_elements);

}  // namespace planwright
