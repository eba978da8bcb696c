#include "probes/worker/gathered_parameters.h"

#include <ATen/ops/empty.h>

#include "probes/worker/device_memory.h"

namespace planwright::worker {

GatheredParameters::GatheredParameters(ModelState& state, const FlatParameters& flat, Group& shard)
    : state_(state), flat_(flat), shard_(shard), buckets_(flat.layout.buckets.size()) {}

void GatheredParameters::begin_bucket(std::size_t index) {
  Bucket& bucket = buckets_[index];
  if (bucket.values.defined()) return;
  const FlatBucket& at = flat_.layout.buckets[index];
  const AccountScope account(Account::parameters);
  bucket.values = at::empty({at.numel}, flat_.values.options());
  shard_.own(bucket.values).copy_(own_slice(flat_.layout, state_.sharding, at, flat_.values, true));
  bucket.gathering = shard_.begin_gather(bucket.values);
}

void GatheredParameters::begin(std::int64_t unit) {
  for (const std::size_t index : read_by(unit)) begin_bucket(index);
}

void GatheredParameters::open(std::int64_t unit) {
  for (const std::size_t index : read_by(unit)) {
    begin_bucket(index);
    buckets_[index].gathering.wait();
    bind_parameters(state_, flat_.layout, index, buckets_[index].values);
  }
}

void GatheredParameters::close(std::int64_t unit) {
  for (const std::size_t index : read_by(unit)) {
    bind_parameters(state_, flat_.layout, index, {});
    buckets_[index].values.reset();
  }
}

}  // namespace planwright::worker
