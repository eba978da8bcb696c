#include "estimator/work.h"

#include "estimator/spec/model_part.h"

namespace planwright::estimator {
namespace {

/// Widths of a block's tensors, in elements per token.
struct Widths {
  double hidden, attention, kv, ffn, up;
};

Widths widths_of(const StepShape& s, const BlockSpec& block) {
  const BlockSpec b = tensor_share(block, static_cast<int>(s.tp));
  const double ffn = static_cast<double>(b.ffn);
  return {static_cast<double>(s.hidden), static_cast<double>(b.heads * b.head_dim),
          static_cast<double>(b.kv_heads * b.head_dim), ffn,
          (b.mlp == MlpKind::gated ? 2 : 1) * ffn};
}

double qkv_width(const Widths& w) { return w.attention + 2 * w.kv; }

/// Weights of the block's four matrices.
double weights_of(const Widths& w) {
  return w.hidden * (qkv_width(w) + w.attention + w.up + w.ffn);
}

/// A weight gradient of another type than the product's is a product of its own and then added:
/// it is read once, the flat gradient is read and written.
double accumulate_bytes(const StepShape& s, double weights) {
  return s.g() == s.e() ? 0 : weights * static_cast<double>(s.e() + 2 * s.g());
}

int biases_of(const BlockSpec& b) {
  return (b.qkv_bias ? 1 : 0) + (b.out_bias ? 1 : 0) + (b.mlp_bias ? 2 : 0);
}

/// Rows that bias gradients are summed over, in elements per token.
double bias_widths(const BlockSpec& b, const Widths& w) {
  return (b.qkv_bias ? qkv_width(w) : 0) + (b.out_bias ? w.hidden : 0) +
         (b.mlp_bias ? w.up + w.hidden : 0);
}

double attention_products(const StepShape& s, const BlockSpec& b, const Widths& w, int products) {
  return 2.0 * products * static_cast<double>(s.batch) * w.attention *
         causal_pairs(s.seq, b.sliding_window);
}

/// Tokens for which this rank does what is done to each token by itself, as a share of all.
double local_share(const StepShape& s) {
  return static_cast<double>(s.local_tokens()) / static_cast<double>(s.tokens());
}

/// Elements per token that a forward's memory-bound kernels read and write: two norms (read,
/// write), rotary positions over q and k (read, write), two residuals copied below their projection
/// (read, write), and the activation (reads `up`, writes ffn).
double forward_elements(const StepShape& s, const Widths& w) {
  return local_share(s) * (2 * 2 + 2 * 2) * w.hidden + (s.rotary ? 2 * (w.attention + w.kv) : 0) +
         (w.up + w.ffn);
}

}  // namespace

double causal_pairs(std::int64_t seq, std::int64_t sliding_window) {
  const double s = static_cast<double>(seq);
  const double w =
      sliding_window > 0 && sliding_window < seq ? static_cast<double>(sliding_window) : s;
  return w * (w + 1) / 2 + (s - w) * w;
}

Work block_forward_work(const StepShape& s, const BlockSpec& b) {
  const Widths w = widths_of(s, b);
  const double tokens = static_cast<double>(s.tokens());
  Work work;
  work.matrix_flops = 2 * tokens * weights_of(w);
  work.attention_flops = attention_products(s, b, w, 2);  // scores; weighted sum of values
  work.bytes = static_cast<double>(s.e()) * tokens * forward_elements(s, w);
  // Two norms, four products, attention, two residual copies, the activation; rotary positions.
  work.launches = 10 + (s.rotary ? 1 : 0);
  return work;
}

Work block_backward_work(const StepShape& s, const BlockSpec& b) {
  const Widths w = widths_of(s, b);
  const double tokens = static_cast<double>(s.tokens());
  Work work;
  work.matrix_flops = 4 * tokens * weights_of(w);         // gradients of inputs and of weights
  work.attention_flops = attention_products(s, b, w, 5);  // scores again, dv, dP, dq, dk
  // The activation reads its gradient and `up` and writes as much as `up`; each norm reads its
  // gradient and input and adds into dy; dq, dk, dv are copied and turned back.
  const double elements = (w.ffn + 2 * w.up) + local_share(s) * 2 * 4 * w.hidden +
                          2 * qkv_width(w) + (s.rotary ? 2 * (w.attention + w.kv) : 0) +
                          bias_widths(b, w);
  work.bytes = static_cast<double>(s.e()) * tokens * elements + accumulate_bytes(s, weights_of(w));
  // Eight products, the activation, two norms, attention, one copy; rotary positions, biases, sums.
  work.launches = 13 + (s.rotary ? 1 : 0) + biases_of(b) + (s.g() == s.e() ? 0 : 4);
  return work;
}

Work block_rebuild_work(const StepShape& s, const BlockSpec& b, bool output) {
  Work work = block_forward_work(s, b);
  if (output) return work;
  const Widths w = widths_of(s, b);
  const double tokens = static_cast<double>(s.tokens());
  work.matrix_flops -= 2 * tokens * w.hidden * w.ffn;
  work.bytes -= static_cast<double>(s.e()) * tokens * local_share(s) * 2 * w.hidden;
  work.launches -= 2;
  return work;
}

Work embedding_work(const StepShape& s) {
  const double width = static_cast<double>(s.tokens() * s.hidden);
  const double e = static_cast<double>(s.e()), g = static_cast<double>(s.g());
  const double tables = s.rotary ? 1 : 1 + local_share(s);
  Work work;
  // Rows are gathered and written; in backward dy is read and the gradient rows read and written.
  work.bytes = width * ((tables + 1) * e + tables * (e + 2 * g));
  work.launches = s.rotary ? 2 : 4;  // gathering and scattering per table
  return work;
}

Work head_work(const StepShape& s) {
  const double tokens = static_cast<double>(s.tokens());
  const double hidden = static_cast<double>(s.hidden), vocab = static_cast<double>(s.vocab);
  const double e = static_cast<double>(s.e()), c = static_cast<double>(s.c());
  const bool upcast = s.e() != s.c();
  Work work;
  work.matrix_flops = 6 * tokens * hidden * vocab;
  // The loss reads the logits and writes their gradient; upcasts read one type and write the other.
  work.bytes =
      tokens * vocab * (2 * c + (upcast ? 2 * (e + c) : 0)) + accumulate_bytes(s, hidden * vocab);
  work.bytes += tokens * local_share(s) * hidden * 6 * e;  // final norm: 2 forward, 4 backward
  // Norm, product, loss; two products, norm.
  work.launches = 6 + (upcast ? 2 : 0) + (s.g() == s.e() ? 0 : 1);
  return work;
}

}  // namespace planwright::estimator
