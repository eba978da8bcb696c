#include "estimator/block_script.h"

#include <initializer_list>
#include <vector>

#include "estimator/kernel_script.h"
#include "estimator/spec/model_part.h"

namespace planwright::estimator {
namespace {

/// Tensors of one block, by the names of docs/runtime.md. What a block has not is of no bytes.
struct BlockTensors {
  Tensor x, n1, stats1, qkv, qk, qk_stats;
  Tensor out, saved;  ///< of attention's forward, and what its backward wants besides
  Tensor x1, n2, stats2, up, act, y;
  Tensor d_out, dq, dk, dv;
  bool gated;
};

/// What attention's backward wants: each query's log-sum-exp, or all weights.
Tensor attention_saved(const StepShape& s, const BlockSpec& share) {
  const std::int64_t queries = s.batch * share.heads * s.seq;
  if (s.attention == AttentionKernel::flash) return {"lse", s.c() * queries};
  return {"weights", s.e() * queries * s.seq};
}

BlockTensors tensors_of(const StepShape& s, const BlockSpec& share) {
  const std::int64_t row = s.e() * s.tokens();
  const std::int64_t u = s.local_unit();
  const std::int64_t width = row * share.heads * share.head_dim;
  const std::int64_t kv = row * share.kv_heads * share.head_dim;
  const std::int64_t heads_turned = share.qk_norm ? share.heads + share.kv_heads : 0;
  const bool gated = share.mlp == MlpKind::gated;
  const bool sequential = share.residual == Residual::sequential;
  const bool own_norm = share.residual != Residual::parallel_shared;
  return {
      .x = {"x", u},
      .n1 = {"n1", u},
      .stats1 = norm_stats(s, share.norm, "stats1"),
      .qkv = {"qkv", width + 2 * kv},
      .qk = {"qk", row * heads_turned * share.head_dim},
      .qk_stats = {"qk_stats", s.c() * s.tokens() * heads_turned},
      .out = {"out", width},
      .saved = attention_saved(s, share),
      .x1 = {"x1", sequential ? u : 0},
      .n2 = {"n2", own_norm ? u : 0},
      .stats2 = own_norm ? norm_stats(s, share.norm, "stats2") : Tensor{"stats2", 0},
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

/// The gradient of a second product's output as that product takes it: gathered, or without what
/// dropout dropped.
Tensor branch_gradient(const StepShape& s) {
  if (s.sp) return whole_rows(s);
  return {"branch", s.hidden_dropout ? s.local_unit() : 0};
}

/// Query and key heads, which carry the positions.
std::int64_t rotary_width(const BlockSpec& share) {
  return (share.heads + share.kv_heads) * share.head_dim;
}

std::vector<Adapter> adapters(const StepShape& s, const BlockSpec& share, BlockMatrix matrix) {
  return adapters_of(s.lora, share, s.hidden, matrix);
}

Tensor lora_state(const StepShape& s) { return {"lora", s.e() * s.tokens() * s.lora.rank}; }

/// What the adapters of a matrix make of its input.
void lora_forward(Script& script, const StepShape& s, const BlockSpec& share, BlockMatrix matrix) {
  for (std::size_t i = 0; i < adapters(s, share, matrix).size(); ++i) {
    script.make(lora_state(s));
    product(script, s, "lora");
  }
}

void lora_weight_gradient(Script& script, const StepShape& s, const BlockSpec& share,
                          BlockMatrix matrix) {
  for (const Adapter& each : adapters(s, share, matrix)) {
    weight_gradient(script, s, "d_lora_B", each.outputs, s.lora.rank);
    script.into(lora_state(s), "d_lora");
    product(script, s, "d_lora");
    weight_gradient(script, s, "d_lora_A", s.lora.rank, each.inputs);
  }
}

/// Their part of the gradient of the matrix's input is added.
void lora_input_gradient(Script& script, const StepShape& s, const BlockSpec& share,
                         BlockMatrix matrix) {
  for (std::size_t i = 0; i < adapters(s, share, matrix).size(); ++i) {
    product(script, s, "d_input of lora");
    script.drop(lora_state(s));
  }
}

void drop_lora(Script& script, const StepShape& s, const BlockSpec& share) {
  for (const BlockMatrix matrix : kBlockMatrices) {
    for (std::size_t i = 0; i < adapters(s, share, matrix).size(); ++i) script.drop(lora_state(s));
  }
}

/// The first product of a pair: its input is gathered.
void first_product(Script& script, const StepShape& s, const BlockSpec& share, const Tensor& y,
                   BlockMatrix matrix) {
  const Tensor whole = whole_rows(s);
  script.make(whole).make(y);
  product(script, s, matrix == BlockMatrix::qkv ? "qkv" : "up projection");
  lora_forward(script, s, share, matrix);
  script.drop(whole);
}

/// Second products that are summed in y: their sum over the ranks is taken, and scattered.
void second_products(Script& script, const StepShape& s, const Tensor& y,
                     std::initializer_list<const char*> names) {
  const Tensor whole = whole_rows(s);
  if (s.sp) {
    script.make(whole);
  } else {
    script.make(y);
  }
  for (const char* name : names) product(script, s, name);
  if (s.sp) script.make(y).drop(whole);
}

NormRows query_norm(const StepShape& s, const BlockSpec& share) {
  return {NormKind::rms_norm, s.tokens() * share.heads, share.head_dim};
}
NormRows key_norm(const StepShape& s, const BlockSpec& share) {
  return {NormKind::rms_norm, s.tokens() * share.kv_heads, share.head_dim};
}

/// A copy of the attention weights without what dropout dropped.
Tensor dropped_weights(const StepShape& s, const BlockTensors& t) {
  return {"dropped", s.attention_dropout ? t.saved.bytes : 0};
}

/// Attention's output, of queries, keys and values.
void attention_core(Script& script, const StepShape& s, const BlockSpec& share,
                    const BlockTensors& t) {
  if (s.attention == AttentionKernel::flash) {
    script.make(t.out).make(t.saved);
    return attention_forward(script, s, share);
  }
  script.make(t.saved);
  product(script, s, "scores");
  causal_softmax(script, s, share);
  const Tensor dropped = dropped_weights(s, t);
  script.make(dropped).make(t.out);
  product(script, s, "weighted values");
  script.drop(dropped);
}

/// Everything of a block's forward but its last projection.
void make_state(Script& script, const StepShape& s, const BlockSpec& share, const BlockTensors& t) {
  script.make(t.n1).make(t.stats1);
  norm_forward(script, s, hidden_norm(s, share.norm));
  first_product(script, s, share, t.qkv, BlockMatrix::qkv);
  if (share.qk_norm) {
    script.make(t.qk).make(t.qk_stats);
    norm_forward(script, s, query_norm(s, share));
    norm_forward(script, s, key_norm(s, share));
  }
  rotate(script, s, rotary_width(share));
  attention_core(script, s, share, t);
  lora_forward(script, s, share, BlockMatrix::out);
  if (share.residual == Residual::sequential) {
    second_products(script, s, t.x1, {"out projection"});
  }
  if (share.residual != Residual::parallel_shared) {
    script.make(t.n2).make(t.stats2);
    norm_forward(script, s, hidden_norm(s, share.norm));
  }
  first_product(script, s, share, t.up, BlockMatrix::up);
  script.make(t.act);
  lora_forward(script, s, share, BlockMatrix::down);
}

void make_output(Script& script, const StepShape& s, const BlockSpec& share,
                 const BlockTensors& t) {
  if (share.residual == Residual::sequential) {
    second_products(script, s, t.y, {"down projection"});
  } else {
    second_products(script, s, t.y, {"out projection", "down projection"});
  }
}

void drop_state(Script& script, const BlockTensors& t) {
  for (const Tensor* each : {&t.n1, &t.stats1, &t.qkv, &t.qk, &t.qk_stats, &t.out, &t.saved, &t.x1,
                             &t.n2, &t.stats2, &t.up, &t.act}) {
    script.drop(*each);
  }
}

/// Gradients of a matrix [n, m] and its bias, over `rows` tokens, and of its adapters.
void matrix_gradient(Script& script, const StepShape& s, const BlockSpec& share, BlockMatrix matrix,
                     std::int64_t n, std::int64_t m, std::int64_t rows, bool bias) {
  if (!s.lora.freezes()) {
    weight_gradient(script, s, "d_weight", n, m);
    if (bias) bias_gradient(script, s, rows, n);
  }
  lora_weight_gradient(script, s, share, matrix);
}

/// Of a first product, and of its input, which that gradient is written into.
void first_product_backward(Script& script, const StepShape& s, const BlockSpec& share,
                            BlockMatrix matrix, const Tensor& input, std::int64_t n, bool bias) {
  const Tensor whole = whole_rows(s);
  script.make(whole);
  matrix_gradient(script, s, share, matrix, n, s.hidden, s.tokens(), bias);
  script.into(input, "d_input");
  product(script, s, "d_input");
  lora_input_gradient(script, s, share, matrix);
  script.drop(whole);
}

std::int64_t up_width(const BlockSpec& share, const BlockTensors& t) {
  return (t.gated ? 2 : 1) * share.ffn;
}
std::int64_t qkv_width(const BlockSpec& share) {
  return (share.heads + 2 * share.kv_heads) * share.head_dim;
}

/// `up` becomes its gradient if the block is gated, act if it is not; the other one is dropped.
void activation_backward(Script& script, const StepShape& s, const BlockSpec& share,
                         const BlockTensors& t) {
  if (t.gated) {
    gated_backward(script, s, share.ffn);
    script.into(t.up, "d_gu").drop(t.act);
  } else {
    script.into(t.act, "d_pre").drop(t.up);
  }
}
const Tensor& up_gradient(const BlockTensors& t) { return t.gated ? t.up : t.act; }

void down_backward(Script& script, const StepShape& s, const BlockSpec& share,
                   const BlockTensors& t) {
  matrix_gradient(script, s, share, BlockMatrix::down, s.hidden, share.ffn, s.local_tokens(),
                  share.mlp_bias);
  script.into(t.act, "d_act");
  product(script, s, "d_act");
  lora_input_gradient(script, s, share, BlockMatrix::down);
}

void out_backward(Script& script, const StepShape& s, const BlockSpec& share,
                  const BlockTensors& t) {
  matrix_gradient(script, s, share, BlockMatrix::out, s.hidden, share.heads * share.head_dim,
                  s.local_tokens(), share.out_bias);
  script.make(t.d_out);
  product(script, s, "d_out");
  lora_input_gradient(script, s, share, BlockMatrix::out);
}

/// d_out becomes the gradient of qkv, in its storage.
void core_backward(Script& script, const StepShape& s, const BlockSpec& share,
                   const BlockTensors& t) {
  if (s.attention == AttentionKernel::flash) {
    script.make(t.dq).make(t.dk).make(t.dv);
    attention_backward(script, s, share);
  } else {
    const Tensor d_weights{"d_weights", t.saved.bytes};
    script.make(d_weights).make(t.dq).make(t.dk).make(t.dv);
    product(script, s, "dv");
    softmax_backward(script, s, share);
    product(script, s, "dq and dk");
    script.drop(d_weights);
  }
  script.drop(t.d_out).drop(t.out).drop(t.saved);
  script.into(t.qkv, "d_qkv").drop(t.dq).drop(t.dk).drop(t.dv);
  rotate(script, s, rotary_width(share));
  if (!share.qk_norm) return;
  norm_backward(script, s, query_norm(s, share));
  norm_backward(script, s, key_norm(s, share));
  script.drop(t.qk).drop(t.qk_stats);
}

void up_backward(Script& script, const StepShape& s, const BlockSpec& share,
                 const BlockTensors& t) {
  first_product_backward(script, s, share, BlockMatrix::up, t.n2, up_width(share, t),
                         share.mlp_bias);
  script.drop(up_gradient(t));
  norm_backward(script, s, hidden_norm(s, share.norm));
  script.drop(t.n2).drop(t.stats2).drop(t.x1);
}

void qkv_backward(Script& script, const StepShape& s, const BlockSpec& share,
                  const BlockTensors& t) {
  first_product_backward(script, s, share, BlockMatrix::qkv, t.n1, qkv_width(share),
                         share.qkv_bias);
  script.drop(t.qkv);
  norm_backward(script, s, hidden_norm(s, share.norm));
  script.drop(t.n1).drop(t.stats1).drop(t.x);
}

void sequential_backward(Script& script, const StepShape& s, const BlockSpec& share,
                         const BlockTensors& t) {
  const Tensor dy = branch_gradient(s);
  script.make(dy);
  down_backward(script, s, share, t);
  script.drop(dy);
  activation_backward(script, s, share, t);
  up_backward(script, s, share, t);

  if (s.again.core_attn) attention_core(script, s, share, t);
  script.make(dy);
  out_backward(script, s, share, t);
  script.drop(dy);
  core_backward(script, s, share, t);
  qkv_backward(script, s, share, t);
}

/// Both halves' first products have one input.
void shared_input_backward(Script& script, const StepShape& s, const BlockSpec& share,
                           const BlockTensors& t) {
  const Tensor whole = whole_rows(s);
  script.make(whole);
  matrix_gradient(script, s, share, BlockMatrix::up, up_width(share, t), s.hidden, s.tokens(),
                  share.mlp_bias);
  matrix_gradient(script, s, share, BlockMatrix::qkv, qkv_width(share), s.hidden, s.tokens(),
                  share.qkv_bias);
  script.into(t.n1, "d_input");
  product(script, s, "d_input");
  lora_input_gradient(script, s, share, BlockMatrix::up);
  lora_input_gradient(script, s, share, BlockMatrix::qkv);
  script.drop(whole).drop(up_gradient(t)).drop(t.qkv);
  norm_backward(script, s, hidden_norm(s, share.norm));
  script.drop(t.n1).drop(t.stats1).drop(t.x);
}

/// dy is what both halves' second products take: it is changed by the norms at the end only.
void parallel_backward(Script& script, const StepShape& s, const BlockSpec& share,
                       const BlockTensors& t) {
  if (s.again.core_attn) attention_core(script, s, share, t);
  const Tensor dy = branch_gradient(s);
  script.make(dy);
  down_backward(script, s, share, t);
  out_backward(script, s, share, t);
  script.drop(dy);
  activation_backward(script, s, share, t);
  core_backward(script, s, share, t);
  if (share.residual == Residual::parallel_shared) {
    return shared_input_backward(script, s, share, t);
  }
  up_backward(script, s, share, t);
  qkv_backward(script, s, share, t);
}

}  // namespace

Script block_forward(const StepShape& s, const BlockSpec& block, Keep keep) {
  const BlockSpec share = tensor_share(block, static_cast<int>(s.tp));
  const BlockTensors t = tensors_of(s, share);
  Script script;
  make_state(script, s, share, t);
  make_output(script, s, share, t);
  if (keep == Keep::nothing) {
    drop_state(script, t);
    drop_lora(script, s, share);
  } else if (s.again.core_attn) {
    script.drop(t.out).drop(t.saved);
  }
  return script;
}

Script block_rebuild(const StepShape& s, const BlockSpec& block, bool output) {
  const BlockSpec share = tensor_share(block, static_cast<int>(s.tp));
  const BlockTensors t = tensors_of(s, share);
  Script script;
  make_state(script, s, share, t);
  if (output) make_output(script, s, share, t);
  return script;
}

Script block_backward(const StepShape& s, const BlockSpec& block) {
  const BlockSpec share = tensor_share(block, static_cast<int>(s.tp));
  const BlockTensors t = tensors_of(s, share);
  Script script;
  if (share.residual == Residual::sequential) {
    sequential_backward(script, s, share, t);
  } else {
    parallel_backward(script, s, share, t);
  }
  return script;
}

}  // namespace planwright::estimator
