#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include "probes/worker/attention.h"
#include "probes/worker/device_memory.h"

namespace planwright::worker {
namespace {

constexpr double kNoDropout = 0.0;
constexpr bool kCausal = true;

}  // namespace

AttentionState flash_forward(const Qkv& in) {
  at::Tensor out, log_sum_exp;
  {
    const WorkspaceScope scope;
    std::tie(out, log_sum_exp) =
        at::_scaled_dot_product_flash_attention_for_cpu(in.q, in.k, in.v, kNoDropout, kCausal);
  }
  rebook(out, Account::activations);
  rebook(log_sum_exp, Account::activations);
  const std::int64_t rows = in.q.size(0) * in.q.size(2);
  return {out.transpose(1, 2).reshape({rows, in.q.size(1) * in.q.size(3)}), {log_sum_exp}};
}

Qkv flash_backward(const at::Tensor& d_out, const Qkv& in, const AttentionState& state) {
  const auto as_heads = [&](const at::Tensor& rows) {
    return heads_view(rows, 0, in.q.size(1), in.q.size(3), in.q.size(0));
  };
  Qkv gradients;
  {
    const WorkspaceScope scope;
    std::tie(gradients.q, gradients.k, gradients.v) =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            as_heads(d_out), in.q, in.k, in.v, as_heads(state.out), state.saved[0], kNoDropout,
            kCausal);
  }
  for (const at::Tensor* each : {&gradients.q, &gradients.k, &gradients.v}) {
    rebook(*each, Account::activations);
  }
  return gradients;
}

}  // namespace planwright::worker
