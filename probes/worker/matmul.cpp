#include "probes/worker/matmul.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "probes/worker/device_memory.h"

namespace planwright::worker {

/// A const handle to a tensor may be written through; ATen's out-variants insist on a plain one.
void multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor out) {
  const WorkspaceScope scope;
  at::mm_out(out, a, b);
}

void multiply_add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  const WorkspaceScope scope;
  out.addmm_(a, b);
}

void linear(const at::Tensor& x, const LinearWeights& w, const at::Tensor& y) {
  if (!w.bias.defined()) return multiply(x, w.weight.t(), y);
  const WorkspaceScope scope;
  at::Tensor out = y;
  at::addmm_out(out, w.bias, x, w.weight.t());
}

void linear_add(const at::Tensor& x, const LinearWeights& w, const at::Tensor& residual,
                const at::Tensor& y) {
  at::Tensor out = y;
  if (w.bias.defined()) {
    at::add_out(out, residual, w.bias);
  } else {
    out.copy_(residual);
  }
  multiply_add(x, w.weight.t(), out);
}

void linear_accumulate(const at::Tensor& x, const LinearWeights& w, const at::Tensor& y) {
  if (w.bias.defined()) y.add_(w.bias);
  multiply_add(x, w.weight.t(), y);
}

void input_gradient(const at::Tensor& dy, const LinearWeights& w, const at::Tensor& dx) {
  multiply(dy, w.weight, dx);
}

void accumulate_input_gradient(const at::Tensor& dy, const LinearWeights& w, const at::Tensor& dx) {
  multiply_add(dy, w.weight, dx);
}

void weight_gradient(const Kernels& kernels, const at::Tensor& dy, const at::Tensor& x,
                     const LinearWeights& w) {
  if (!w.trained) return;
  if (w.weight_gradient.scalar_type() == x.scalar_type()) {
    multiply_add(dy.t(), x, w.weight_gradient);
  } else {
    const at::Tensor product = at::empty(w.weight.sizes(), x.options());
    multiply(dy.t(), x, product);
    kernels.accumulate(w.weight_gradient, product);
  }
}

void bias_gradient(const Kernels& kernels, const at::Tensor& dy, const LinearWeights& w) {
  if (w.trained && w.bias.defined()) kernels.bias_backward(dy, w.bias_gradient);
}

}  // namespace planwright::worker
