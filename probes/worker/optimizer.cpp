#include "probes/worker/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>
#include <string>

#include "probes/worker/device_memory.h"

namespace planwright::worker {

at::Tensor bucket_slice(const at::Tensor& flat, const FlatLayout& layout, const FlatBucket& bucket,
                        int shard) {
  const std::int64_t numel = bucket.numel / layout.ranks;
  return flat.narrow(0, bucket.begin + shard * numel, numel);
}

Optimizer::Optimizer(const Workload& workload, const ModelState& state, int shard)
    : kind_(workload.optimizer) {
  if (kind_ != OptimizerKind::adamw && kind_ != OptimizerKind::sgd) {
    throw std::invalid_argument("the worker has no optimizer " + std::string(word(kind_)));
  }
  const AccountScope account(Account::optimizer);
  const PrecisionRecipe& recipe = workload.recipe;
  const std::int64_t numel = state.layout.shard_numel();
  const auto own = [&](DType type) {
    return at::zeros({numel}, state.parameters.options().dtype(scalar_type(type)));
  };
  if (recipe.master) master_ = own(*recipe.master);
  if (kind_ == OptimizerKind::adamw) {
    moments1_ = own(recipe.state);
    moments2_ = own(recipe.state);
    counter_ = at::zeros({}, state.parameters.options().dtype(at::kFloat));
  }

  std::int64_t begin = 0;
  for (const FlatBucket& bucket : state.layout.buckets) {
    Slice slice;
    slice.stored = bucket_slice(state.parameters, state.layout, bucket, shard);
    slice.gradient = bucket_slice(state.gradients, state.layout, bucket, shard);
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
}

void Optimizer::step() {
  ++steps_;
  if (kind_ == OptimizerKind::adamw) {
    adamw();
  } else {
    sgd();
  }
  if (!master_.defined()) return;
  for (const Slice& slice : slices_) slice.stored.copy_(slice.updated);
}

void Optimizer::adamw() {
  counter_.fill_(static_cast<double>(steps_));
  std::vector<at::Tensor> weights, gradients, moments1, moments2;
  for (const Slice& slice : slices_) {
    weights.push_back(slice.updated);
    gradients.push_back(slice.gradient);
    moments1.push_back(slice.moment1);
    moments2.push_back(slice.moment2);
  }
  const std::vector<at::Tensor> counters(slices_.size(), counter_);
  constexpr bool kAmsgrad = false, kMaximize = false;
  at::_fused_adamw_(weights, gradients, moments1, moments2, {}, counters, kAdamwLearningRate,
                    kBeta1, kBeta2, kWeightDecay, kEpsilon, kAmsgrad, kMaximize);
}

void Optimizer::sgd() {
  for (const Slice& slice : slices_) slice.updated.add_(slice.gradient, -kSgdLearningRate);
}

}  // namespace planwright::worker
