#include "estimator/step_script.h"

#include "estimator/kernel_script.h"

namespace planwright::estimator {
namespace {

/// Tensors of one block, by the names of docs/runtime.md.
struct BlockTensors {
  Tensor x, n1, stats1, qkv, out, lse, x1, n2, stats2, up, act, y;
  Tensor d_out, dq, dk, dv;
  bool gated;
};

std::int64_t stats_bytes(const StepShape& s, NormKind norm) {
  return (norm == NormKind::layer_norm ? 2 : 1) * s.c() * s.tokens();
}

BlockTensors tensors_of(const StepShape& s, const BlockSpec& block) {
  const std::int64_t row = s.e() * s.tokens();
  const std::int64_t u = row * s.hidden;
  const std::int64_t width = row * block.heads * block.head_dim;
  const std::int64_t kv = row * block.kv_heads * block.head_dim;
  const std::int64_t stats = stats_bytes(s, block.norm);
  const bool gated = block.mlp == MlpKind::gated;
  return {
      .x = {"x", u},
      .n1 = {"n1", u},
      .stats1 = {"stats1", stats},
      .qkv = {"qkv", width + 2 * kv},
      .out = {"out", width},
      .lse = {"lse", s.c() * s.batch * block.heads * s.seq},
      .x1 = {"x1", u},
      .n2 = {"n2", u},
      .stats2 = {"stats2", stats},
      .up = {gated ? "gu" : "pre", (gated ? 2 : 1) * row * block.ffn},
      .act = {"act", row * block.ffn},
      .y = {"y", u},
      .d_out = {"d_out", width},
      .dq = {"dq", width},
      .dk = {"dk", kv},
      .dv = {"dv", kv},
      .gated = gated,
  };
}

/// Query and key heads, which carry the positions.
std::int64_t rotary_width(const BlockSpec& block) {
  return (block.heads + block.kv_heads) * block.head_dim;
}

/// Everything of a block's forward but its last projection.
void make_state(Script& script, const StepShape& s, const BlockSpec& block, const BlockTensors& t) {
  script.make(t.n1).make(t.stats1);
  norm_forward(script, s, block.norm);
  script.make(t.qkv);
  product(script, s, "qkv");
  rotate(script, s, rotary_width(block));
  script.make(t.out).make(t.lse);
  attention_forward(script, s, block);
  script.make(t.x1);
  product(script, s, "out projection");
  script.make(t.n2).make(t.stats2);
  norm_forward(script, s, block.norm);
  script.make(t.up);
  product(script, s, "up projection");
  script.make(t.act);
}

void drop_state(Script& script, const BlockTensors& t) {
  for (const Tensor* each :
       {&t.n1, &t.stats1, &t.qkv, &t.out, &t.lse, &t.x1, &t.n2, &t.stats2, &t.up, &t.act}) {
    script.drop(*each);
  }
}

void mlp_backward(Script& script, const StepShape& s, const BlockSpec& block,
                  const BlockTensors& t) {
  weight_gradient(script, s, "d_down", s.hidden, block.ffn, block.mlp_bias);
  script.into(t.act, "d_act");
  product(script, s, "d_act");
  if (t.gated) {
    gated_backward(script, s, block.ffn);
    script.into(t.up, "d_gu").drop(t.act);
  } else {
    script.into(t.act, "d_pre").drop(t.up);
  }
  const Tensor& d_up = t.gated ? t.up : t.act;
  weight_gradient(script, s, "d_up", (t.gated ? 2 : 1) * block.ffn, s.hidden, block.mlp_bias);
  script.into(t.n2, "dn2");
  product(script, s, "dn2");
  script.drop(d_up);
  norm_backward(script, s, block.norm);
  script.drop(t.n2).drop(t.stats2).drop(t.x1);
}

void attention_part_backward(Script& script, const StepShape& s, const BlockSpec& block,
                             const BlockTensors& t) {
  const std::int64_t width = block.heads * block.head_dim;
  const std::int64_t kv = block.kv_heads * block.head_dim;
  weight_gradient(script, s, "d_out_projection", s.hidden, width, block.out_bias);
  script.make(t.d_out);
  product(script, s, "d_out");
  script.make(t.dq).make(t.dk).make(t.dv);
  attention_backward(script, s, block);
  script.drop(t.d_out).drop(t.out).drop(t.lse);
  script.into(t.qkv, "d_qkv").drop(t.dq).drop(t.dk).drop(t.dv);
  rotate(script, s, rotary_width(block));
  weight_gradient(script, s, "d_qkv", width + 2 * kv, s.hidden, block.qkv_bias);
  script.into(t.n1, "dn1");
  product(script, s, "dn1");
  script.drop(t.qkv);
  norm_backward(script, s, block.norm);
  script.drop(t.n1).drop(t.stats1).drop(t.x);
}

/// What the head and the loss keep; `up` is the logits themselves when nothing is upcast.
struct HeadTensors {
  Tensor ids, targets, x, nf, stats, logits, up, dlogits;
  bool upcast;
};

HeadTensors head_of(const StepShape& s, NormKind norm) {
  const std::int64_t u = s.e() * s.tokens() * s.hidden;
  const std::int64_t logits = s.tokens() * s.vocab;
  return {
      .ids = {"ids", 8 * s.tokens()},
      .targets = {"targets", 8 * s.tokens()},
      .x = {"x", u},
      .nf = {"nf", u},
      .stats = {"stats", stats_bytes(s, norm)},
      .logits = {"logits", s.e() * logits, Account::logits},
      .up = {"up", s.c() * logits, Account::logits},
      .dlogits = {"dlogits", s.e() * logits, Account::logits},
      .upcast = s.e() != s.c(),
  };
}

Script head_forward(const StepShape& s, const HeadTensors& t, NormKind norm) {
  Script script;
  script.make(t.nf).make(t.stats);
  norm_forward(script, s, norm);
  script.make(t.logits);
  product(script, s, "head");
  return script;
}

Script loss(const StepShape& s, const HeadTensors& t) {
  Script script;
  if (t.upcast) script.make(t.up).drop(t.logits);
  cross_entropy(script, s);
  return script.into(t.upcast ? t.up : t.logits, "loss gradient");
}

Script head_backward(const StepShape& s, const HeadTensors& t, NormKind norm) {
  Script script;
  if (t.upcast) script.make(t.dlogits).drop(t.up);
  weight_gradient(script, s, "d_head", s.vocab, s.hidden, false);
  script.into(t.nf, "dnf");
  product(script, s, "dnf");
  script.drop(t.upcast ? t.dlogits : t.logits);
  norm_backward(script, s, norm);
  return script.into(t.nf, "dy").drop(t.stats).drop(t.x);
}

Script embedding_backward(const StepShape& s, const HeadTensors& t) {
  Script script;
  embed_backward(script, s);
  return script.drop(t.nf).drop(t.ids).drop(t.targets);
}

}  // namespace

StepShape step_shape(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate) {
  return {
      .batch = candidate.micro_batch,
      .seq = problem.workload.seq,
      .hidden = problem.model.hidden,
      .vocab = problem.model.vocab,
      .threads = problem.cluster.threads_per_rank,
      .compute = problem.workload.recipe.compute,
      .gradient = problem.workload.recipe.gradient,
      .rotary = problem.model.positions == Positions::rotary,
      .kernels = traits.kernels(problem.cluster.device.kind),
      .device = problem.cluster.device.kind,
  };
}

Script block_forward(const StepShape& s, const BlockSpec& block, bool keep) {
  const BlockTensors t = tensors_of(s, block);
  Script script;
  make_state(script, s, block, t);
  script.make(t.y);
  product(script, s, "down projection");
  if (!keep) drop_state(script, t);
  return script;
}

Script block_backward(const StepShape& s, const BlockSpec& block, bool recompute) {
  const BlockTensors t = tensors_of(s, block);
  Script script;
  if (recompute) make_state(script, s, block, t);
  mlp_backward(script, s, block, t);
  attention_part_backward(script, s, block, t);
  return script;
}

std::array<Peaks, kWordCount<Phase>> micro_batch_peaks(const StepShape& s, const ModelSpec& model,
                                                       bool recompute) {
  std::array<Peaks, kWordCount<Phase>> peaks{};
  const auto at = [&](Phase phase) -> Peaks& { return peaks[static_cast<std::size_t>(phase)]; };
  const NormKind norm = model.runs.back().block.norm;
  const HeadTensors t = head_of(s, norm);
  Simulator simulator;

  simulator.enter();
  simulator.run(Script().make(t.ids).make(t.targets).make(t.x));
  for (const BlockRun& run : model.runs) {
    simulator.repeat(block_forward(s, run.block, !recompute), run.count);
  }
  simulator.run(head_forward(s, t, norm));
  at(Phase::forward) = simulator.peaks();

  simulator.enter();
  simulator.run(loss(s, t));
  at(Phase::loss) = simulator.peaks();

  simulator.enter();
  simulator.run(head_backward(s, t, norm));
  for (auto run = model.runs.rbegin(); run != model.runs.rend(); ++run) {
    simulator.repeat(block_backward(s, run->block, recompute), run->count);
  }
  simulator.run(embedding_backward(s, t));
  at(Phase::backward) = simulator.peaks();
  return peaks;
}

}  // namespace planwright::estimator
