#include "estimator/work_widths.h"

#include <algorithm>

#include "estimator/spec/model_part.h"

namespace planwright::estimator {
namespace {

double in_doubles(std::int64_t value) { return static_cast<double>(value); }

/// Latent vectors are made on every rank, of its own tokens.
double latent_weights(const StepShape& s, const BlockSpec& block, double hidden, double values) {
  const LatentSpec& l = *block.latent;
  const double down = local_share(s) * hidden * in_doubles(l.q_rank + l.kv_rank + l.rope_dim);
  return down + leading_up_weights(s, block) + values * hidden;
}

/// How much wider than what a token uses of experts is what is read of them besides: a rank has
/// experts / ep, of which its rows, top_k of a token, reach no more than there are rows.
double other_experts(const StepShape& s, const MoeSpec& moe) {
  const double tp = in_doubles(s.tp), etp = in_doubles(s.etp), ffn = in_doubles(moe.ffn);
  const double rows = in_doubles(s.tokens() * moe.top_k) * etp / tp;
  const double reached = std::min(in_doubles(moe.experts) / in_doubles(s.ep), rows);
  const double used = in_doubles(moe.top_k) * ffn / tp;
  return std::max(0.0, reached * ffn / etp - used) / (used + in_doubles(moe.shared_ffn) / tp);
}

}  // namespace

Widths widths_of(const StepShape& s, const BlockSpec& block) {
  const BlockSpec b = tensor_share(block, static_cast<int>(s.tp));
  double ffn = in_doubles(b.ffn);
  if (b.moe) ffn = in_doubles(b.moe->top_k * b.moe->ffn + b.moe->shared_ffn) / in_doubles(s.tp);
  const double values = in_doubles(b.heads * (b.latent ? b.latent->value_dim : b.head_dim));
  Widths w{.hidden = in_doubles(s.hidden),
           .attention = in_doubles(b.heads * b.head_dim),
           .kv = in_doubles(b.kv_heads * b.head_dim),
           .ffn = ffn,
           .up = (b.mlp == MlpKind::gated ? 2 : 1) * ffn,
           .values = values,
           .mixing = 0,
           .others = b.moe ? other_experts(s, *b.moe) : 0};
  w.mixing = b.latent ? latent_weights(s, block, w.hidden, values)
                      : w.hidden * (qkv_width(w) + w.attention);
  return w;
}

double leading_up_weights(const StepShape& s, const BlockSpec& block) {
  const LatentSpec& l = *block.latent;
  const double heads = in_doubles(block.heads) / in_doubles(s.tp);
  const double queries = in_doubles(l.q_rank > 0 ? l.q_rank : s.hidden);
  return heads * (queries * in_doubles(l.nope_dim + l.rope_dim) +
                  in_doubles(l.kv_rank * (l.nope_dim + l.value_dim)));
}

double product_flops(const StepShape& s, double weights) {
  return 2 * static_cast<double>(s.tokens()) * weights * s.product_time;
}

double other_weights(const StepShape& s, const Widths& w, double weights) {
  return w.others * weights * s.product_time;
}

double local_share(const StepShape& s) {
  return in_doubles(s.local_tokens()) / in_doubles(s.tokens());
}

}  // namespace planwright::estimator
