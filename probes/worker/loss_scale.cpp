#include "probes/worker/loss_scale.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "probes/worker/device_memory.h"

namespace planwright::worker {

LossScale::LossScale(const PrecisionRecipe& recipe, at::Device device) {
  if (recipe.compute != DType::fp16) return;
  const AccountScope account(Account::optimizer);
  value_ = kFirstLossScale;
  scalars_ = at::zeros({2}, at::TensorOptions(at::kFloat).device(device));
  scalars_[1].fill_(1);
}

bool LossScale::accept(const std::vector<at::Tensor>& gradients, Group& all) {
  if (!scalars_.defined()) return true;
  at::Tensor found = scalars_.narrow(0, 0, 1);
  found.zero_();
  // The operator divides by nothing here: a half's gradients would vanish, were they not wide.
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, scalars_.narrow(0, 1, 1));
  all.sum(found);
  const bool finite = found.item<float>() == 0;
  good_steps_ = finite ? good_steps_ + 1 : 0;
  if (!finite) value_ = std::max(1.0, value_ / 2);
  if (good_steps_ == kLossScaleGrowth) {
    value_ *= 2;
    good_steps_ = 0;
  }
  return finite;
}

}  // namespace planwright::worker
