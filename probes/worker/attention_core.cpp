#include "probes/worker/attention_core.h"

#include <utility>

#include "probes/worker/empty_rows.h"
#include "probes/worker/spending.h"

namespace planwright::worker {
namespace {

/// Where queries and keys are as attention takes them: at the beginning of each row.
const at::Tensor& turned(const BlockContext& c, const BlockState& s) {
  return c.spec.qk_norm ? s.qk : s.qkv;
}

void rotate(const BlockContext& c, const at::Tensor& rows, bool inverse) {
  if (!c.rotary.cos.defined()) return;
  c.kernels.rotate(rows, c.spec.heads + c.spec.kv_heads, c.rotary, inverse);
}

Qkv attention_input(const BlockContext& c, const BlockState& s) {
  const std::int64_t heads = c.spec.heads, kv = c.spec.kv_heads, dim = c.spec.head_dim;
  const at::Tensor& qk = turned(c, s);
  return {heads_view(qk, 0, heads, dim, c.batch), heads_view(qk, heads, kv, dim, c.batch),
          heads_view(s.qkv, heads + kv, kv, dim, c.batch)};
}

/// Calls body(weights, first head, heads, statistics) for the norm of queries and that of keys.
template <class Body>
void over_head_norms(const BlockContext& c, const BlockState& s, const Body& body) {
  const std::int64_t rows = s.qkv.size(0), heads = c.spec.heads, kv = c.spec.kv_heads;
  body(c.weights.q_norm, std::int64_t{0}, heads, s.qk_stats.narrow(1, 0, rows * heads));
  body(c.weights.k_norm, heads, kv, s.qk_stats.narrow(1, rows * heads, rows * kv));
}

/// [rows, heads, head_dim] of packed rows.
at::Tensor heads_of_rows(const BlockContext& c, const at::Tensor& rows, std::int64_t first,
                         std::int64_t heads) {
  const std::int64_t dim = c.spec.head_dim;
  return rows.narrow(1, first * dim, heads * dim).view({rows.size(0), heads, dim});
}

void norm_heads(const BlockContext& c, BlockState& s) {
  const std::int64_t heads = c.spec.heads + c.spec.kv_heads;
  s.qk = empty_rows(s.qkv, heads * c.spec.head_dim);
  s.qk_stats = empty_stats(c.weights.q_norm, s.qkv.size(0) * heads, s.qkv);
  over_head_norms(c, s, [&](const NormWeights& w, auto first, auto count, const auto& stats) {
    c.kernels.norm_forward(heads_of_rows(c, s.qkv, first, count), w,
                           heads_of_rows(c, s.qk, first, count), stats);
  });
}

/// The gradient of queries and keys, from qk's storage into qkv's.
void norm_heads_backward(const BlockContext& c, BlockState& s) {
  over_head_norms(c, s, [&](const NormWeights& w, auto first, auto count, const auto& stats) {
    const at::Tensor heads = heads_of_rows(c, s.qkv, first, count);
    c.kernels.norm_backward(heads_of_rows(c, s.qk, first, count), heads, stats, w, heads, false);
  });
  s.qk.reset();
  s.qk_stats.reset();
}

EagerAttention eager(const BlockContext& c) {
  const std::int64_t mine = c.spec.heads, per_head = c.seq * c.seq;
  const std::int64_t per_sequence = per_head * mine * c.tensor.size();
  return {c.kernels, c.spec.sliding_window,
          c.dropout.mask(DropSite::attention_weights, c.layer, per_sequence,
                         c.tensor.rank() * mine * per_head),
          per_sequence};
}

void attend(const BlockContext& c, BlockState& s) {
  const Qkv in = attention_input(c, s);
  s.attention =
      c.attention == AttentionKernel::flash ? flash_forward(in) : eager_forward(eager(c), in);
}

void attend_backward(const BlockContext& c, BlockState& s, at::Tensor d_out) {
  const Qkv in = attention_input(c, s);
  const Qkv d = c.attention == AttentionKernel::flash
                    ? flash_backward(d_out, in, s.attention)
                    : eager_backward(eager(c), d_out, in, s.attention);
  d_out.reset();
  s.attention = {};
  in.q.copy_(d.q);
  in.k.copy_(d.k);
  in.v.copy_(d.v);
}

}  // namespace

void core_forward(const BlockContext& c, BlockState& s) {
  if (c.spec.qk_norm) norm_heads(c, s);
  rotate(c, turned(c, s), false);
  attend(c, s);
}

void core_again(const BlockContext& c, BlockState& s) {
  const SpendingScope spending(Spending::recompute);
  attend(c, s);
}

void core_backward(const BlockContext& c, BlockState& s, at::Tensor d_out) {
  attend_backward(c, s, std::move(d_out));
  rotate(c, turned(c, s), true);
  if (c.spec.qk_norm) norm_heads_backward(c, s);
}

}  // namespace planwright::worker
