#include "probes/worker/optimizer.h"

#include <ATen/ops/zeros.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "probes/worker/device_memory.h"

namespace planwright::worker {

Optimizer::Optimizer(const Workload& workload, const ModelState& state)
    : kind_(workload.optimizer) {
  if (moments_of(kind_) == 0 && kind_ != OptimizerKind::adafactor) {
    throw std::invalid_argument("the worker has no optimizer " + std::string(word(kind_)));
  }
  const AccountScope account(Account::optimizer);
  const PrecisionRecipe& recipe = workload.recipe;
  const std::int64_t numel = state.layout.shard_numel();
  const auto own = [&](DType type) {
    return at::zeros({numel}, state.parameters.options().dtype(scalar_type(type)));
  };
  if (recipe.master) master_ = own(*recipe.master);
  if (moments_of(kind_) > 0) moments1_ = own(recipe.state);
  if (moments_of(kind_) > 1) moments2_ = own(recipe.state);
  if (kind_ == OptimizerKind::adamw) {
    counter_ = at::zeros({}, state.parameters.options().dtype(at::kFloat));
  }

  std::int64_t begin = 0;
  for (const FlatBucket& bucket : state.layout.buckets) {
    OptimizerSlice slice;
    slice.stored = own_slice(state, bucket, state.parameters, state.sharding.parameters);
    slice.gradient = own_slice(state, bucket, state.gradients, state.sharding.gradients);
    const auto mine = [&](const at::Tensor& flat) {
      return flat.defined() ? flat.narrow(0, begin, slice.stored.numel()) : flat;
    };
    slice.updated = master_.defined() ? mine(master_) : slice.stored;
    if (master_.defined()) slice.updated.copy_(slice.stored);
    slice.moment1 = mine(moments1_);
    slice.moment2 = mine(moments2_);
    begin += slice.stored.numel();
    slices_.push_back(std::move(slice));
  }
  if (kind_ == OptimizerKind::adafactor) {
    const at::Tensor& weights = master_.defined() ? master_ : state.parameters;
    adafactor_.emplace(state.layout, weights, state.gradients, scalar_type(recipe.state));
  }
}

void Optimizer::step(double gradient_factor) {
  ++steps_;
  if (counter_.defined()) counter_.fill_(static_cast<double>(steps_));
  if (adafactor_) {
    adafactor_->step(gradient_factor, steps_);
  } else {
    for (const OptimizerSlice& slice : slices_) {
      update_elements(kind_, slice, gradient_factor, steps_, counter_);
    }
  }
  if (!master_.defined()) return;
  for (const OptimizerSlice& slice : slices_) slice.stored.copy_(slice.updated);
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> all;
  for (const OptimizerSlice& slice : slices_) all.push_back(slice.gradient);
  return all;
}

}  // namespace planwright::worker
