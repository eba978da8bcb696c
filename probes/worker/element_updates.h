#pragma once

#include <cstdint>

#include "estimator/spec/workload.h"
#include "probes/worker/optimizer_slice.h"

/// The optimizers that look at each weight by itself: AdamW, SGD with momentum, Lion.
namespace planwright::worker {

// The built-in runtime's hyper-parameters; a probe's outcome does not depend on them.
constexpr double kAdamwLearningRate = 1e-3;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.95;
constexpr double kEpsilon = 1e-8;
constexpr double kWeightDecay = 0.1;
constexpr double kSgdLearningRate = 0.01;
constexpr double kMomentum = 0.9;
constexpr double kLionLearningRate = 1e-4;
constexpr double kLionBeta1 = 0.9;
constexpr double kLionBeta2 = 0.99;

/// Moments of each weight, 0 for the other optimizers.
constexpr int moments_of(OptimizerKind kind) {
  return kind == OptimizerKind::adamw                                ? 2
         : kind == OptimizerKind::sgd || kind == OptimizerKind::lion ? 1
                                                                     : 0;
}

/// One update of the slice's weights and moments from its gradient times `factor`; `steps` counts
/// from 1 and `counter` is a tensor of it, which AdamW's fused operator wants. Allocates nothing.
/// On a CPU by loops of our own. On an accelerator by libtorch's operators, for slices of one type
/// throughout, and the gradient is no longer one afterwards.
void update_elements(OptimizerKind kind, const OptimizerSlice& slice, double factor,
                     std::int64_t steps, const at::Tensor& counter);

}  // namespace planwright::worker
