#include "probes/worker/data_parallel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "probes/worker/device_memory.h"

namespace planwright::worker {

DataParallel::DataParallel(ModelState& state, const JobGroups& groups, bool overlap)
    : state_(state), groups_(groups), overlap_(overlap) {
  for (const FlatBucket& bucket : state.layout.buckets) buckets_.push_back({bucket, {}, {}});
  if (!state.sharding.parameters) return;
  for (const FlatParameters& flat : {state.frozen_parameters(), state.trained_parameters()}) {
    gathered_.emplace_back(state, flat, *groups.shard);
  }
}

void DataParallel::enter(std::int64_t unit, std::optional<std::int64_t> next) {
  for (GatheredParameters& each : gathered_) each.open(unit);
  if (!overlap_ || !next) return;
  for (GatheredParameters& each : gathered_) each.begin(*next);
}

void DataParallel::leave(std::int64_t unit) {
  for (GatheredParameters& each : gathered_) each.close(unit);
}

void DataParallel::open_gradients(std::int64_t unit) {
  if (!shards_gradients()) return;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.at.opened_by != unit) continue;
    const AccountScope account(Account::gradients);
    bucket.gradients = at::empty({bucket.at.numel}, state_.gradients.options());
    bucket.gradients.zero_();
    bind_gradients(state_, i, bucket.gradients);
  }
}

at::Tensor DataParallel::gradients_of(const Bucket& bucket) const {
  return shards_gradients() ? bucket.gradients : bucket_view(state_.gradients, bucket.at);
}

void DataParallel::begin_sum(Bucket& bucket) {
  const at::Tensor gradients = gradients_of(bucket);
  if (bucket.at.partial_numel > 0) {
    groups_.tensor->sum(
        gradients.narrow(0, bucket.at.partial_begin - bucket.at.begin, bucket.at.partial_numel));
  }
  bucket.summing = groups_.shard->size() > 1 ? groups_.shard->begin_scatter_sum(gradients)
                                             : groups_.replica->begin_sum(gradients);
  bucket.begun = true;
}

void DataParallel::finish_sum(std::size_t index) {
  Bucket& bucket = buckets_[index];
  bucket.summing.wait();
  bucket.begun = false;
  const at::Tensor own = groups_.shard->own(gradients_of(bucket));
  if (groups_.shard->size() > 1) groups_.replica->sum(own);
  if (!shards_gradients()) return;
  own_slice(state_, bucket.at, state_.gradients, true).add_(own);
  bind_gradients(state_, index, {});
  bucket.gradients.reset();
}

void DataParallel::complete_gradients(std::int64_t unit) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (buckets_[i].at.completed_by != unit) continue;
    if (!shards_gradients()) {
      if (last_backward_ && overlap_) begin_sum(buckets_[i]);
      continue;
    }
    if (summing_) finish_sum(*summing_);
    summing_.reset();
    begin_sum(buckets_[i]);
    if (overlap_) {
      summing_ = i;
    } else {
      finish_sum(i);
    }
  }
}

void DataParallel::end_backward() {
  if (summing_) finish_sum(*summing_);
  summing_.reset();
}

void DataParallel::finish_gradients() {
  last_backward_ = false;
  if (!shards_gradients()) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (!buckets_[i].begun) begin_sum(buckets_[i]);
      finish_sum(i);
    }
  }
  sum_shared_embedding();
}

/// The first and the last stage lay the bucket out alike, so that equal slices meet.
void DataParallel::sum_shared_embedding() {
  if (groups_.embedding == nullptr) return;
  for (const Bucket& bucket : buckets_) {
    if (!bucket.at.shared) continue;
    groups_.embedding->sum(own_slice(state_, bucket.at, state_.gradients, shards_gradients()));
  }
}

void DataParallel::gather_parameters() {
  if (groups_.shard->size() == 1 || state_.sharding.parameters) return;
  for (const Bucket& bucket : buckets_) {
    groups_.shard->gather(bucket_view(state_.parameters, bucket.at));
  }
}

at::Tensor DataParallel::whole(const at::Tensor& flat, bool sharded) {
  at::Tensor all = at::zeros({state_.layout.numel}, flat.options());
  for (const Bucket& bucket : buckets_) {
    const at::Tensor here = bucket_view(all, bucket.at);
    groups_.shard->own(here).copy_(own_slice(state_, bucket.at, flat, sharded));
    groups_.shard->gather(here);
  }
  return all;
}

}  // namespace planwright::worker
