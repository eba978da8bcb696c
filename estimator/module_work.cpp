#include "estimator/module_work.h"

#include "estimator/work.h"
#include "estimator/work_widths.h"

namespace planwright::estimator {
namespace {

/// Reads rows of `from` elements a token and writes rows of `to`.
Work pass(const StepShape& s, double from, double to, double share = 1) {
  const double bytes = static_cast<double>(s.e() * s.tokens()) * share;
  return {.bytes = bytes * (from + to), .launches = 1};
}

Work products(const StepShape& s, double weights, double count) {
  return {.matrix_flops = product_flops(s, weights), .launches = count};
}

Work norm_work(const StepShape& s, const Widths& w) {
  return pass(s, w.hidden, w.hidden, local_share(s));
}

double up_width(const BlockSpec& b, double ffn) { return (b.mlp == MlpKind::gated ? 2 : 1) * ffn; }

/// The activation of an MLP `ffn` wide.
Work activation_work(const StepShape& s, const BlockSpec& b, double ffn) {
  return pass(s, up_width(b, ffn), ffn);
}

/// An MLP `ffn` wide: two products, or three in two, and the activation.
Work mlp_work(const StepShape& s, const BlockSpec& b, double hidden, double ffn) {
  Work work = products(s, hidden * (up_width(b, ffn) + ffn), 2);
  work += activation_work(s, b, ffn);
  return work;
}

/// Of a token's routed experts and of those that are shared, as wide together.
struct Experts {
  double routed, shared;
};
Experts experts_of(const StepShape& s, const MoeSpec& moe) {
  const auto tp = static_cast<double>(s.tp);
  return {static_cast<double>(moe.top_k * moe.ffn) / tp, static_cast<double>(moe.shared_ffn) / tp};
}

Work experts_again_work(const StepShape& s, const BlockSpec& b, const Widths& w) {
  const RecomputedModules& again = s.again;
  const Experts experts = experts_of(s, *b.moe);
  Work work;
  if (again.moe) {
    work += mlp_work(s, b, w.hidden, experts.routed);
    work.other_weights += other_weights(s, w, mlp_weights(w));
  }
  if (experts.shared > 0 && (again.moe || again.shared_experts)) {
    work += mlp_work(s, b, w.hidden, experts.shared);
  }
  if (again.moe_act) work += activation_work(s, b, experts.routed);
  return work;
}

}  // namespace

Work modules_again_work(const StepShape& s, const BlockSpec& b) {
  const RecomputedModules& again = s.again;
  const Widths w = widths_of(s, b);
  Work work;
  if (again.core_attn) work += attention_work(s, b);
  if (again.layernorm && b.latent) work += norm_work(s, w);
  if (again.layernorm && b.moe) work += norm_work(s, w);
  if (again.mla_up_proj && b.latent) {
    work += products(s, leading_up_weights(s, b), 2);
    work += pass(s, w.attention + w.kv, w.attention + w.kv);
  }
  if (again.mlp && !b.moe) {
    work += norm_work(s, w);
    work += mlp_work(s, b, w.hidden, w.ffn);
  }
  if (b.moe) work += experts_again_work(s, b, w);
  return work;
}

}  // namespace planwright::estimator
