#include "estimator/step_script.h"

#include "estimator/kernel_script.h"
#include "estimator/spec/model_part.h"

namespace planwright::estimator {
namespace {

/// Tensors of one block, by the names of docs/runtime.md.
struct BlockTensors {
  Tensor x, n1, stats1, qkv, out, lse, x1, n2, stats2, up, act, y;
  Tensor d_out, dq, dk, dv;
  bool gated;
};

std::int64_t stats_bytes(const StepShape& s, NormKind norm) {
  return (norm == NormKind::layer_norm ? 2 : 1) * s.c() * s.local_tokens();
}

BlockTensors tensors_of(const StepShape& s, const BlockSpec& share) {
  const std::int64_t row = s.e() * s.tokens();
  const std::int64_t u = s.local_unit();
  const std::int64_t width = row * share.heads * share.head_dim;
  const std::int64_t kv = row * share.kv_heads * share.head_dim;
  const std::int64_t stats = stats_bytes(s, share.norm);
  const bool gated = share.mlp == MlpKind::gated;
  return {
      .x = {"x", u},
      .n1 = {"n1", u},
      .stats1 = {"stats1", stats},
      .qkv = {"qkv", width + 2 * kv},
      .out = {"out", width},
      .lse = {"lse", s.c() * s.batch * share.heads * s.seq},
      .x1 = {"x1", u},
      .n2 = {"n2", u},
      .stats2 = {"stats2", stats},
      .up = {gated ? "gu" : "pre", (gated ? 2 : 1) * row * share.ffn},
      .act = {"act", row * share.ffn},
      .y = {"y", u},
      .d_out = {"d_out", width},
      .dq = {"dq", width},
      .dk = {"dk", kv},
      .dv = {"dv", kv},
      .gated = gated,
  };
}

/// With sequence parallelism, every rank's rows of what each has its own of.
Tensor whole_rows(const StepShape& s) {
  return {"whole", s.sp ? s.e() * s.tokens() * s.hidden : 0, Account::communication};
}

/// Query and key heads, which carry the positions.
std::int64_t rotary_width(const BlockSpec& share) {
  return (share.heads + share.kv_heads) * share.head_dim;
}

/// The first product of a pair: its input is gathered.
void first_product(Script& script, const StepShape& s, const Tensor& y, const char* name) {
  const Tensor whole = whole_rows(s);
  script.make(whole).make(y);
  product(script, s, name);
  script.drop(whole);
}

/// The second one: its output is summed, and scattered.
void second_product(Script& script, const StepShape& s, const Tensor& y, const char* name) {
  const Tensor whole = whole_rows(s);
  if (s.sp) {
    script.make(whole);
    product(script, s, name);
    script.make(y).drop(whole);
  } else {
    script.make(y);
    product(script, s, name);
  }
}

/// Everything of a block's forward but its last projection.
void make_state(Script& script, const StepShape& s, const BlockSpec& share, const BlockTensors& t) {
  script.make(t.n1).make(t.stats1);
  norm_forward(script, s, share.norm);
  first_product(script, s, t.qkv, "qkv");
  rotate(script, s, rotary_width(share));
  script.make(t.out).make(t.lse);
  attention_forward(script, s, share);
  second_product(script, s, t.x1, "out projection");
  script.make(t.n2).make(t.stats2);
  norm_forward(script, s, share.norm);
  first_product(script, s, t.up, "up projection");
  script.make(t.act);
}

void drop_state(Script& script, const BlockTensors& t) {
  for (const Tensor* each :
       {&t.n1, &t.stats1, &t.qkv, &t.out, &t.lse, &t.x1, &t.n2, &t.stats2, &t.up, &t.act}) {
    script.drop(*each);
  }
}

/// Gradient of a first product [n, m], and of its input n, which that gradient is written into.
void first_product_backward(Script& script, const StepShape& s, const Tensor& input,
                            const char* name, std::int64_t n, bool bias) {
  const Tensor whole = whole_rows(s);
  script.make(whole);
  weight_gradient(script, s, name, n, s.hidden);
  if (bias) bias_gradient(script, s, s.tokens(), n);
  script.into(input, "d_input");
  product(script, s, "d_input");
  script.drop(whole);
}

/// Gradients of a second product [hidden, m] and of its bias; the gradient of its input comes next.
void second_product_weight(Script& script, const StepShape& s, const char* name, std::int64_t m,
                           bool bias) {
  weight_gradient(script, s, name, s.hidden, m);
  if (bias) bias_gradient(script, s, s.local_tokens(), s.hidden);
}

void mlp_backward(Script& script, const StepShape& s, const BlockSpec& share,
                  const BlockTensors& t) {
  const Tensor whole = whole_rows(s);
  script.make(whole);
  second_product_weight(script, s, "d_down", share.ffn, share.mlp_bias);
  script.into(t.act, "d_act");
  product(script, s, "d_act");
  script.drop(whole);
  if (t.gated) {
    gated_backward(script, s, share.ffn);
    script.into(t.up, "d_gu").drop(t.act);
  } else {
    script.into(t.act, "d_pre").drop(t.up);
  }
  first_product_backward(script, s, t.n2, "d_up", (t.gated ? 2 : 1) * share.ffn, share.mlp_bias);
  script.drop(t.gated ? t.up : t.act);
  norm_backward(script, s, share.norm);
  script.drop(t.n2).drop(t.stats2).drop(t.x1);
}

void attention_part_backward(Script& script, const StepShape& s, const BlockSpec& share,
                             const BlockTensors& t) {
  const std::int64_t width = share.heads * share.head_dim;
  const std::int64_t kv = share.kv_heads * share.head_dim;
  const Tensor whole = whole_rows(s);
  script.make(whole);
  second_product_weight(script, s, "d_out_projection", width, share.out_bias);
  script.make(t.d_out);
  product(script, s, "d_out");
  script.drop(whole);
  script.make(t.dq).make(t.dk).make(t.dv);
  attention_backward(script, s, share);
  script.drop(t.d_out).drop(t.out).drop(t.lse);
  script.into(t.qkv, "d_qkv").drop(t.dq).drop(t.dk).drop(t.dv);
  rotate(script, s, rotary_width(share));
  first_product_backward(script, s, t.n1, "d_qkv", width + 2 * kv, share.qkv_bias);
  script.drop(t.qkv);
  norm_backward(script, s, share.norm);
  script.drop(t.n1).drop(t.stats1).drop(t.x);
}

/// What the head and the loss keep; `up` is the logits themselves when nothing is upcast.
struct HeadTensors {
  Tensor x, nf, stats, logits, up, dlogits;
  bool upcast;
};

HeadTensors head_of(const StepShape& s, NormKind norm) {
  const std::int64_t logits = s.tokens() * s.vocab;
  return {
      .x = {"x", s.local_unit()},
      .nf = {"nf", s.local_unit()},
      .stats = {"stats", stats_bytes(s, norm)},
      .logits = {"logits", s.e() * logits, Account::logits},
      .up = {"up", s.c() * logits, Account::logits},
      .dlogits = {"dlogits", s.e() * logits, Account::logits},
      .upcast = s.e() != s.c(),
  };
}

}  // namespace

StepShape step_shape(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate) {
  return {
      .batch = candidate.micro_batch,
      .seq = problem.workload.seq,
      .hidden = problem.model.hidden,
      .vocab = vocab_share(problem.model.vocab, candidate.tp),
      .tp = candidate.tp,
      .sp = candidate.sp,
      .threads = problem.cluster.threads_per_rank,
      .compute = problem.workload.recipe.compute,
      .gradient = problem.workload.recipe.gradient,
      .rotary = problem.model.positions == Positions::rotary,
      .kernels = traits.kernels(problem.cluster.device.kind),
      .device = problem.cluster.device.kind,
  };
}

Script block_forward(const StepShape& s, const BlockSpec& block, Keep keep) {
  const BlockSpec share = tensor_share(block, static_cast<int>(s.tp));
  const BlockTensors t = tensors_of(s, share);
  Script script;
  make_state(script, s, share, t);
  second_product(script, s, t.y, "down projection");
  if (keep == Keep::nothing) drop_state(script, t);
  return script;
}

Script block_rebuild(const StepShape& s, const BlockSpec& block, bool output) {
  const BlockSpec share = tensor_share(block, static_cast<int>(s.tp));
  const BlockTensors t = tensors_of(s, share);
  Script script;
  make_state(script, s, share, t);
  if (output) second_product(script, s, t.y, "down projection");
  return script;
}

Script block_backward(const StepShape& s, const BlockSpec& block) {
  const BlockSpec share = tensor_share(block, static_cast<int>(s.tp));
  const BlockTensors t = tensors_of(s, share);
  Script script;
  mlp_backward(script, s, share, t);
  attention_part_backward(script, s, share, t);
  return script;
}

Tensor hidden_rows(const StepShape& s, const char* name) { return {name, s.local_unit()}; }
Tensor token_ids(const StepShape& s, const char* name) { return {name, 8 * s.tokens()}; }

Script embedding_forward(const StepShape& s) {
  const Tensor whole = whole_rows(s);
  Script script;
  script.make(hidden_rows(s, "x")).make(whole);
  embed(script, s);
  return script.drop(whole);
}

Script embedding_backward(const StepShape& s) {
  const Tensor whole = whole_rows(s);
  Script script;
  script.make(whole);
  embed_backward(script, s);
  script.drop(whole);
  if (!s.rotary) positions_backward(script, s);
  return script;
}

Script head_forward(const StepShape& s, NormKind norm) {
  const HeadTensors t = head_of(s, norm);
  Script script;
  script.make(t.nf).make(t.stats);
  norm_forward(script, s, norm);
  script.make(whole_rows(s)).make(t.logits);
  product(script, s, "head");
  return script;
}

Script loss(const StepShape& s) {
  const HeadTensors t = head_of(s, NormKind::rms_norm);
  Script script;
  if (t.upcast) script.make(t.up).drop(t.logits);
  cross_entropy(script, s);
  return script.into(t.upcast ? t.up : t.logits, "loss gradient");
}

Script head_backward(const StepShape& s, NormKind norm) {
  const HeadTensors t = head_of(s, norm);
  Script script;
  if (t.upcast) script.make(t.dlogits).drop(t.up);
  weight_gradient(script, s, "d_head", s.vocab, s.hidden);
  script.into(t.nf, "dnf");
  product(script, s, "dnf");
  script.drop(t.upcast ? t.dlogits : t.logits).drop(whole_rows(s));
  norm_backward(script, s, norm);
  return script.into(t.nf, "dy").drop(t.stats).drop(t.x);
}

}  // namespace planwright::estimator
