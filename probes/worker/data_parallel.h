#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "probes/worker/gathered_parameters.h"
#include "probes/worker/job_groups.h"
#include "probes/worker/model_state.h"
#include "probes/worker/windows.h"

namespace planwright::worker {

/// Keeps the states of the data ranks together: sums gradients, and gathers and releases what ZeRO
/// shards, in the windows of docs/runtime.md. With `overlap`, collectives are carried out while the
/// passes go on: the next unit's parameters are gathered while this one is computed, and a bucket
/// of gradients is summed while the next one is made.
class DataParallel : public Windows {
 public:
  /// Refers to both.
  DataParallel(ModelState& state, const JobGroups& groups, bool overlap);

  void enter(std::int64_t unit, std::optional<std::int64_t> next) override;
  void leave(std::int64_t unit) override;
  void open_gradients(std::int64_t unit) override;
  void complete_gradients(std::int64_t unit) override;
  void end_backward() override;

  /// Before the backward of a step's last micro-batch, whose gradients are the step's.
  void begin_last_backward() { last_backward_ = true; }
  /// After it: every gradient that this rank owns is the sum over all data ranks.
  void finish_gradients();
  /// After the optimizer: every rank has the weights it computes with.
  void gather_parameters();

  /// All of `flat`'s tensors, whole, in new storage; for every rank of the shard group to call.
  at::Tensor whole(const at::Tensor& flat, bool sharded);

 private:
  struct Bucket {
    FlatBucket at;
    at::Tensor gradients;  ///< with ZeRO 2 and 3 only while open
    Pending summing;
    bool begun = false;  ///< its gradients' sum
  };

  bool shards_gradients() const { return state_.sharding.gradients; }
  at::Tensor gradients_of(const Bucket& bucket) const;
  void begin_sum(Bucket& bucket);
  void finish_sum(std::size_t bucket);
  void sum_shared_embedding();

  ModelState& state_;
  const JobGroups& groups_;
  bool overlap_;
  bool last_backward_ = false;
  std::vector<GatheredParameters> gathered_;  ///< with ZeRO 3 only
  std::vector<Bucket> buckets_;
  std::optional<std::size_t> summing_;  ///< the one bucket whose sum is under way, ZeRO 2 and 3
};

}  // namespace planwright::worker
