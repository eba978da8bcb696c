#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include "probes/worker/attention.h"
#include "probes/worker/device_memory.h"

namespace planwright::worker {
namespace {

constexpr double kNoDropout = 0.0;
constexpr bool kCausal = true;

struct Qkv {
  at::Tensor q, k, v;
};

Qkv split(const BlockSpec& block, const at::Tensor& qkv, std::int64_t batch) {
  const std::int64_t h = block.heads, kv = block.kv_heads, d = block.head_dim;
  return {heads_view(qkv, 0, h, d, batch), heads_view(qkv, h, kv, d, batch),
          heads_view(qkv, h + kv, kv, d, batch)};
}

}  // namespace

AttentionState attention_forward(const BlockSpec& block, const at::Tensor& qkv,
                                 std::int64_t batch) {
  const auto [q, k, v] = split(block, qkv, batch);
  at::Tensor out, log_sum_exp;
  {
    const WorkspaceScope scope;
    std::tie(out, log_sum_exp) =
        at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, kNoDropout, kCausal);
  }
  rebook(out, Account::activations);
  rebook(log_sum_exp, Account::activations);
  return {out.transpose(1, 2).reshape({qkv.size(0), block.heads * block.head_dim}), {log_sum_exp}};
}

QkvGradients attention_backward(const BlockSpec& block, const at::Tensor& d_out,
                                const at::Tensor& qkv, const AttentionState& state,
                                std::int64_t batch) {
  const auto [q, k, v] = split(block, qkv, batch);
  const auto as_heads = [&](const at::Tensor& rows) {
    return heads_view(rows, 0, block.heads, block.head_dim, batch);
  };
  QkvGradients gradients;
  {
    const WorkspaceScope scope;
    std::tie(gradients.q, gradients.k, gradients.v) =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            as_heads(d_out), q, k, v, as_heads(state.out), state.saved[0], kNoDropout, kCausal);
  }
  for (const at::Tensor* each : {&gradients.q, &gradients.k, &gradients.v}) {
    rebook(*each, Account::activations);
  }
  return gradients;
}

}  // namespace planwright::worker
