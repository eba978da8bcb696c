#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "probes/worker/group.h"
#include "probes/worker/model_state.h"

namespace planwright::worker {

/// ZeRO 3's windows over one flat buffer: a unit's buckets are gathered before it is used and
/// released after it.
class GatheredParameters {
 public:
  /// Refers to all of them; `flat` is one of the state's.
  GatheredParameters(ModelState& state, const FlatParameters& flat, Group& shard);

  /// Allocates the unit's buckets and begins to gather them, but for those that are there.
  void begin(std::int64_t unit);
  /// The same, and waits until the unit's weights can be read.
  void open(std::int64_t unit);
  void close(std::int64_t unit);

 private:
  struct Bucket {
    at::Tensor values;
    Pending gathering;
  };

  void begin_bucket(std::size_t index);
  const std::vector<std::size_t>& read_by(std::int64_t unit) const {
    return flat_.layout.read_by[static_cast<std::size_t>(unit)];
  }

  ModelState& state_;
  FlatParameters flat_;
  Group& shard_;
  std::vector<Bucket> buckets_;
};

}  // namespace planwright::worker
