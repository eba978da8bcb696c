#include "probes/worker/element_updates.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>

#include <cmath>

#include "probes/worker/update_loops.h"

namespace planwright::worker {
namespace {

/// Elements that make a thread worth waking.
constexpr std::int64_t kGrainElements = 32768;

update_loops::AdamwStep adamw_step(double factor, std::int64_t steps) {
  const auto t = static_cast<double>(steps);
  return {.factor = factor,
          .decay = 1 - kAdamwLearningRate * kWeightDecay,
          .step_size = kAdamwLearningRate / (1 - std::pow(kBeta1, t)),
          .root_of_correction = std::sqrt(1 - std::pow(kBeta2, t)),
          .beta1 = kBeta1,
          .beta2 = kBeta2,
          .epsilon = kEpsilon};
}

constexpr double kLionDecay = 1 - kLionLearningRate * kWeightDecay;

template <class W, class G, class S>
void update_stretch(OptimizerKind kind, const OptimizerSlice& slice, double factor,
                    std::int64_t steps, std::int64_t begin, std::int64_t end) {
  W* weight = slice.updated.data_ptr<W>() + begin;
  const G* gradient = slice.gradient.data_ptr<G>() + begin;
  S* moment = slice.moment1.data_ptr<S>() + begin;
  const std::int64_t n = end - begin;
  if (kind == OptimizerKind::adamw) {
    S* moment2 = slice.moment2.data_ptr<S>() + begin;
    update_loops::adamw(adamw_step(factor, steps), n, weight, gradient, moment, moment2);
  } else if (kind == OptimizerKind::sgd) {
    update_loops::sgd({.factor = factor, .rate = kSgdLearningRate, .momentum = kMomentum}, n,
                      weight, gradient, moment);
  } else {
    update_loops::lion({.factor = factor,
                        .decay = kLionDecay,
                        .rate = kLionLearningRate,
                        .beta1 = kLionBeta1,
                        .beta2 = kLionBeta2},
                       n, weight, gradient, moment);
  }
}

/// Without a temporary: the gradient becomes the direction d = b1 m + (1 - b1) g, and the new
/// moment b2 m + (1 - b2) g is made of m and d.
void lion_by_operators(const OptimizerSlice& slice) {
  constexpr double kOfDirection = (1 - kLionBeta2) / (1 - kLionBeta1);
  slice.gradient.mul_(1 - kLionBeta1).add_(slice.moment1, kLionBeta1);
  slice.moment1.mul_(kLionBeta2 - kLionBeta1 * kOfDirection).add_(slice.gradient, kOfDirection);
  slice.updated.mul_(kLionDecay).add_(slice.gradient.sign_(), -kLionLearningRate);
}

void update_by_operators(OptimizerKind kind, const OptimizerSlice& slice, double factor,
                         const at::Tensor& counter) {
  if (factor != 1) slice.gradient.mul_(factor);
  if (kind == OptimizerKind::sgd) {
    slice.moment1.mul_(kMomentum).add_(slice.gradient);
    slice.updated.add_(slice.moment1, -kSgdLearningRate);
  } else if (kind == OptimizerKind::lion) {
    lion_by_operators(slice);
  } else {
    constexpr bool kAmsgrad = false, kMaximize = false;
    at::_fused_adamw_({slice.updated}, {slice.gradient}, {slice.moment1}, {slice.moment2}, {},
                      {counter}, kAdamwLearningRate, kBeta1, kBeta2, kWeightDecay, kEpsilon,
                      kAmsgrad, kMaximize);
  }
}

}  // namespace

void update_elements(OptimizerKind kind, const OptimizerSlice& slice, double factor,
                     std::int64_t steps, const at::Tensor& counter) {
  if (!slice.updated.is_cpu()) return update_by_operators(kind, slice, factor, counter);
  dispatch_types(
      slice.updated, slice.gradient, slice.moment1, [&]<class W, class G, class S>(W, G, S) {
        at::parallel_for(0, slice.updated.numel(), kGrainElements,
                         [&](std::int64_t begin, std::int64_t end) {
                           update_stretch<W, G, S>(kind, slice, factor, steps, begin, end);
                         });
      });
}

}  // namespace planwright::worker
