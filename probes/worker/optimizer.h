#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "estimator/spec/workload.h"
#include "probes/worker/model_state.h"

namespace planwright::worker {

// The built-in runtime's hyper-parameters; a probe's outcome does not depend on them.
constexpr double kAdamwLearningRate = 1e-3;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.95;
constexpr double kEpsilon = 1e-8;
constexpr double kWeightDecay = 0.1;
constexpr double kSgdLearningRate = 0.1;

/// AdamW or plain SGD over the elements that this rank owns: slice `shard` of each bucket of the
/// state's layout. With a master copy that one is updated and the stored weights follow.
class Optimizer {
 public:
  /// Refers to the state's buffers. Allocates in the optimizer account.
  Optimizer(const Workload& workload, const ModelState& state, int shard);

  /// Allocates nothing.
  void step();

 private:
  struct Slice {
    at::Tensor stored, gradient;
    at::Tensor updated;  ///< the master copy if there is one, else the stored weights
    at::Tensor moment1, moment2;
  };

  void adamw();
  void sgd();

  OptimizerKind kind_;
  std::int64_t steps_ = 0;
  std::vector<Slice> slices_;
  at::Tensor master_, moments1_, moments2_, counter_;
};

/// The slice of bucket `bucket` that rank `shard` of the layout's ranks owns.
at::Tensor bucket_slice(const at::Tensor& flat, const FlatLayout& layout, const FlatBucket& bucket,
                        int shard);

}  // namespace planwright::worker
