#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cmath>

#include "probes/worker/attention.h"
#include "probes/worker/matmul.h"

// Heads are views of packed rows, which no batched product takes without a copy: each is a product
// of its own.
namespace planwright::worker {
namespace {

double scale_of(const Qkv& in) { return 1 / std::sqrt(static_cast<double>(in.q.size(3))); }

at::Tensor rows_of(const at::Tensor& weights) { return weights.view({-1, weights.size(3)}); }

/// One head of one sequence: its matrices in a tensor of all heads.
struct Head {
  std::int64_t sequence, head, kv_head;
  bool first_of_group;  ///< of those that share a key/value head
  at::Tensor query(const at::Tensor& all) const { return all.select(0, sequence).select(0, head); }
  at::Tensor key(const at::Tensor& all) const { return all.select(0, sequence).select(0, kv_head); }
};

template <class Body>
void over_heads(const Qkv& in, const Body& body) {
  const std::int64_t heads = in.q.size(1), group = heads / in.k.size(1);
  for (std::int64_t sequence = 0; sequence < in.q.size(0); ++sequence) {
    for (std::int64_t head = 0; head < heads; ++head) {
      body(Head{sequence, head, head / group, head % group == 0});
    }
  }
}

/// The gradient of what a group of heads shares is the sum of theirs.
void add_up(const Head& at, const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum) {
  if (at.first_of_group) {
    multiply(a, b, at.key(sum));
  } else {
    multiply_add(a, b, at.key(sum));
  }
}

void drop_weights(const EagerAttention& how, const at::Tensor& from, const at::Tensor& to) {
  DropMask mask = how.mask;
  for (std::int64_t sequence = 0; sequence < from.size(0); ++sequence) {
    drop(from.select(0, sequence), mask, to.select(0, sequence));
    mask.first += how.mask_stride;
  }
}

bool drops(const EagerAttention& how) { return how.mask.probability > 0; }

}  // namespace

AttentionState eager_forward(const EagerAttention& how, const Qkv& in) {
  const std::int64_t batch = in.q.size(0), heads = in.q.size(1), seq = in.q.size(2),
                     head_dim = in.q.size(3);
  const at::Tensor weights = at::empty({batch, heads, seq, seq}, in.q.options());
  over_heads(
      in, [&](const Head& at) { multiply(at.query(in.q), at.key(in.k).t(), at.query(weights)); });
  how.kernels.causal_softmax(rows_of(weights), how.window, scale_of(in));
  at::Tensor seen = weights;
  if (drops(how)) {
    seen = at::empty_like(weights);
    drop_weights(how, weights, seen);
  }
  const at::Tensor out = at::empty({batch * seq, heads * head_dim}, in.q.options());
  const at::Tensor out_heads = heads_view(out, 0, heads, head_dim, batch);
  over_heads(in,
             [&](const Head& at) { multiply(at.query(seen), at.key(in.v), at.query(out_heads)); });
  return {out, {weights}};
}

Qkv eager_backward(const EagerAttention& how, const at::Tensor& d_out, const Qkv& in,
                   const AttentionState& state) {
  const at::Tensor& weights = state.saved[0];
  // First what dropout left of the weights, if there is any, then their gradient, head by head.
  const at::Tensor d_weights = at::empty_like(weights);
  if (drops(how)) drop_weights(how, weights, d_weights);
  const at::Tensor& seen = drops(how) ? d_weights : weights;
  const at::Tensor d_heads = heads_view(d_out, 0, in.q.size(1), in.q.size(3), in.q.size(0));
  const auto new_like = [](const at::Tensor& heads) {
    return at::empty(heads.sizes(), heads.options());
  };
  Qkv d{new_like(in.q), new_like(in.k), new_like(in.v)};
  over_heads(in, [&](const Head& at) {
    const at::Tensor d_head = at.query(d_heads);
    add_up(at, at.query(seen).t(), d_head, d.v);
    multiply(d_head, at.key(in.v).t(), at.query(d_weights));
  });
  if (drops(how)) drop_weights(how, d_weights, d_weights);
  how.kernels.softmax_backward(rows_of(weights), rows_of(d_weights), scale_of(in));
  over_heads(in, [&](const Head& at) {
    const at::Tensor d_scores = at.query(d_weights);
    multiply(d_scores, at.key(in.k), at.query(d.q));
    add_up(at, d_scores.t(), at.query(in.q), d.k);
  });
  return d;
}

}  // namespace planwright::worker
