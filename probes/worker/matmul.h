#pragma once

#include <ATen/core/Tensor.h>

#include "probes/worker/kernels.h"
#include "probes/worker/weights.h"

/// Matrix products into storage that is there already. Whatever the library allocates within one
/// is booked as workspace. Activations are [rows, width].
namespace planwright::worker {

/// out = a b; any of them may be a view of every other row or column.
void multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor out);
/// out += a b.
void multiply_add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out);

/// y = x Wᵀ + bias.
void linear(const at::Tensor& x, const LinearWeights& w, const at::Tensor& y);

/// y = residual + x Wᵀ + bias.
void linear_add(const at::Tensor& x, const LinearWeights& w, const at::Tensor& residual,
                const at::Tensor& y);

/// y += x Wᵀ + bias.
void linear_accumulate(const at::Tensor& x, const LinearWeights& w, const at::Tensor& y);

/// dx = dy W.
void input_gradient(const at::Tensor& dy, const LinearWeights& w, const at::Tensor& dx);
/// dx += dy W.
void accumulate_input_gradient(const at::Tensor& dy, const LinearWeights& w, const at::Tensor& dx);

/// The weight's gradient += dyᵀ x, if it is trained. If gradients are wider than activations the
/// product is first made in the activations' type.
void weight_gradient(const Kernels& kernels, const at::Tensor& dy, const at::Tensor& x,
                     const LinearWeights& w);
/// The bias's gradient += the sum of dy's rows, if there is one.
void bias_gradient(const Kernels& kernels, const at::Tensor& dy, const LinearWeights& w);

}  // namespace planwright::worker
