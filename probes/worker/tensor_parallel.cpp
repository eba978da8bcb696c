#include "probes/worker/tensor_parallel.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>

#include "probes/worker/device_memory.h"
#include "probes/worker/matmul.h"

namespace planwright::worker {

at::Tensor TensorParallel::partial(const at::Tensor& rows) const {
  if (!sp_) return rows;
  const AccountScope account(Account::communication);
  return at::empty({rows.size(0) * size(), rows.size(1)}, rows.options());
}

at::Tensor TensorParallel::gathered(const at::Tensor& rows) const {
  if (!sp_) return rows;
  const at::Tensor whole = partial(rows);
  group_.own(whole).copy_(rows);
  group_.gather(whole);
  return whole;
}

void TensorParallel::reduce(const at::Tensor& whole, const at::Tensor& rows) const {
  if (!sp_) return group_.sum(whole);
  group_.scatter_sum(whole);
  rows.copy_(group_.own(whole));
}

at::Tensor TensorParallel::project(const at::Tensor& a, const LinearWeights& w,
                                   const at::Tensor& residual) const {
  if (sp_) {
    at::Tensor whole = partial(residual);
    linear(a, {w.weight, {}, {}, {}}, whole);
    group_.scatter_sum(whole);
    at::Tensor y = at::empty(residual.sizes(), residual.options());
    at::add_out(y, residual, group_.own(whole));
    if (w.bias.defined()) y.add_(w.bias);
    return y;
  }
  at::Tensor y = at::empty(residual.sizes(), residual.options());
  if (rank() == 0) {  // the residual and the bias count once
    linear_add(a, w, residual, y);
  } else {
    linear(a, {w.weight, {}, {}, {}}, y);
  }
  group_.sum(y);
  return y;
}

void TensorParallel::input_gradient(const at::Tensor& dy, const LinearWeights& w,
                                    const at::Tensor& whole, const at::Tensor& dx) const {
  worker::input_gradient(dy, w, whole);
  reduce(whole, dx);
}

}  // namespace planwright::worker
