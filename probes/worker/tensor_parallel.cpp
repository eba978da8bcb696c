#include "probes/worker/tensor_parallel.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

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
  at::Tensor whole = partial(rows);
  own_rows(whole).copy_(rows);
  gather(whole);
  return whole;
}

void TensorParallel::reduce(const at::Tensor& whole, const at::Tensor& rows) const {
  if (!sp_) return group_.sum(whole);
  group_.scatter_sum(whole);
  rows.copy_(group_.own(whole));
}

namespace {

LinearWeights without_bias(const LinearWeights& w) { return {w.weight, {}, {}, {}, true, {}}; }

}  // namespace

at::Tensor TensorParallel::project(std::initializer_list<Product> products, const at::Tensor& like,
                                   const at::Tensor* residual) const {
  const auto add_up = [&](const at::Tensor& sum, const at::Tensor* to, bool biases) {
    for (const Product& each : products) {
      const LinearWeights w = biases ? each.weights : without_bias(each.weights);
      if (&each != products.begin()) {
        linear_accumulate(each.a, w, sum);
      } else if (to != nullptr) {
        linear_add(each.a, w, *to, sum);
      } else {
        linear(each.a, w, sum);
      }
      add_lora(each.lora, each.weights, sum);
    }
  };
  if (sp_) {
    at::Tensor whole = partial(like);
    add_up(whole, nullptr, false);
    group_.scatter_sum(whole);
    at::Tensor y = at::empty_like(like);
    if (residual != nullptr) {
      at::add_out(y, *residual, group_.own(whole));
    } else {
      y.copy_(group_.own(whole));
    }
    for (const Product& each : products) {
      if (each.weights.bias.defined()) y.add_(each.weights.bias);
    }
    return y;
  }
  at::Tensor y = at::empty_like(like);
  const bool counts = rank() == 0;  // residual and biases count once
  add_up(y, counts ? residual : nullptr, counts);
  group_.sum(y);
  return y;
}

}  // namespace planwright::worker
