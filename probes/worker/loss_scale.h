#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "estimator/spec/workload.h"
#include "probes/worker/group.h"

namespace planwright::worker {

// Source: Micikevicius et al. (2018), section 3.2; the numbers are those of pytorch's GradScaler
// (torch/amp/grad_scaler.py @ v2.11.0).
constexpr double kFirstLossScale = 65536;
constexpr int kLossScaleGrowth = 2000;  ///< good steps after which the scale doubles

/// What the loss is multiplied by, so that gradients that pass through halves neither vanish nor
/// overflow. 1 for ever if nothing is computed in fp16.
class LossScale {
 public:
  /// In fp16, two fp32 scalars of the optimizer account.
  LossScale(const PrecisionRecipe& recipe, at::Device device);

  double value() const { return value_; }

  /// Whether these, all ranks' together, are finite: a step of others is to be skipped. Halves the
  /// scale (not below 1) after one that is not, doubles it after kLossScaleGrowth that were. Called
  /// by all ranks. Allocates nothing, and does nothing unless anything is computed in fp16.
  bool accept(const std::vector<at::Tensor>& gradients, Group& all);

 private:
  double value_ = 1;
  int good_steps_ = 0;
  at::Tensor scalars_;  ///< whether something is not finite; 1. Undefined without fp16
};

}  // namespace planwright::worker
