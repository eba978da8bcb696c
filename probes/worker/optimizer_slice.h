#pragma once

#include <ATen/core/Tensor.h>

namespace planwright::worker {

/// A stretch of the flat buffers that is updated in one go. A moment that the optimizer does not
/// have is an undefined tensor.
struct OptimizerSlice {
  at::Tensor stored, gradient;
  at::Tensor updated;  ///< the master copy if there is one, else the stored weights
  at::Tensor moment1, moment2;
};

/// Calls body with a value each of the types of weights, gradients and states, which are all double
/// or all narrower: weights float or bfloat16, gradients float, bfloat16 or half, states float or
/// bfloat16.
template <class Body>
void dispatch_types(const at::Tensor& weights, const at::Tensor& gradients,
                    const at::Tensor& states, const Body& body) {
  if (weights.scalar_type() == at::kDouble) return body(double{}, double{}, double{});
  const auto with = [](const at::Tensor& tensor, const auto& next) {
    if (tensor.scalar_type() == at::kFloat) return next(float{});
    TORCH_CHECK(tensor.scalar_type() == at::kBFloat16, "no optimizer for this type");
    next(c10::BFloat16{});
  };
  with(weights, [&](auto weight) {
    with(states, [&](auto state) {
      if (gradients.scalar_type() == at::kHalf) return body(weight, c10::Half{}, state);
      with(gradients, [&](auto gradient) { body(weight, gradient, state); });
    });
  });
}

}  // namespace planwright::worker
