#include "estimator/te_program.h"

#include <utility>

namespace planwright::estimator {

using namespace tape;

TeProgram::TeProgram(const StepShape& shape)
    : TapeProgram(shape),
      ranks_{shape.tp, shape.sp},
      rows_(shape.local_tokens()),
      whole_(shape.tokens()) {}

Tensor TeProgram::boundary() const { return hidden_rows(shape_, "hidden states"); }

/// Tokens, labels and positions of 8 bytes, the loss mask of 4, on both end stages. Source:
/// megatron/training/utils.py, get_batch_on_this_tp_rank.
Tensor TeProgram::ids() const { return {"batch", (8 + 8 + 8 + 4) * whole_}; }
Tensor TeProgram::targets() const { return ids(); }

Var TeProgram::given(Graph& graph, const char* name) const {
  return graph.given(name, rows_ * shape_.hidden, shape_.compute, true);
}

Var TeProgram::attention(Graph& graph, const Var& x, const BlockSpec& share) const {
  const std::int64_t queries = whole_ * share.heads * share.head_dim;
  const std::int64_t keys = whole_ * share.kv_heads * share.head_dim;
  const Var mixed = te_norm_linear(graph, x, {share.norm, rows_},
                                   (share.heads + 2 * share.kv_heads) * share.head_dim, ranks_);
  std::vector<Var> parts = te_split(graph, mixed, {queries, keys, keys});
  const bool grouped = share.heads > share.kv_heads;
  if (grouped) parts[0] = te_copy(graph, parts[0]);
  for (int i = 0; i < 2 && shape_.rotary; ++i) parts[i] = te_rotate(graph, parts[i]);
  // Of three views that alternate head by head, cuDNN takes them as they lie.
  if (shape_.rotary || grouped) {
    if (!shape_.rotary) parts[1] = te_copy(graph, parts[1]);
    parts[2] = te_copy(graph, parts[2]);
  }
  const Var out = te_attention(graph, parts[0], parts[1], parts[2], whole_ * share.heads);
  return te_row_linear(graph, out, whole_, shape_.hidden, ranks_);
}

Var TeProgram::mlp(Graph& graph, const Var& x, const BlockSpec& share) const {
  const bool gated = share.mlp == MlpKind::gated;
  Var inner = te_norm_linear(graph, x, {share.norm, rows_}, (gated ? 2 : 1) * share.ffn, ranks_);
  inner = te_activation(graph, inner, gated);
  return te_row_linear(graph, inner, whole_, shape_.hidden, ranks_);
}

Var TeProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  const Var x1 = te_add(graph, attention(graph, x, share), x, shape_.hidden_dropout);
  return te_add(graph, mlp(graph, x1, share), x1, shape_.hidden_dropout);
}

/// Masked where the rank has no row of the matrix, summed over the ranks, and turned to
/// [seq, batch, hidden]. Source: megatron/core/tensor_parallel/layers.py, VocabParallelEmbedding.
Script TeProgram::embedding() const {
  const Tensor rows{"embedded", shape_.e() * whole_ * shape_.hidden};
  Script script;
  script.make(rows).make(boundary()).drop(rows);
  return script;
}

/// The matrix's gradient is made apart and added to the buffer.
Script TeProgram::embedding_backward() const {
  const Tensor gradient{"d_embedding", shape_.e() * shape_.vocab * shape_.hidden,
                        Account::gradients};
  const Tensor rows{"gathered", ranks_.gathers() ? shape_.e() * whole_ * shape_.hidden : 0,
                    Account::communication};
  Script script;
  script.make(rows).make(gradient).drop(gradient).drop(rows);
  return script.drop(boundary());
}

/// The output layer gathers into a buffer of the process that is never given back. Source:
/// megatron/core/utils.py, GlobalMemoryBuffer.
Tensor TeProgram::resident(const ModelPart& part) const {
  const bool gathers = part.last && ranks_.gathers();
  return {"output layer's gather buffer", gathers ? shape_.e() * whole_ * shape_.hidden : 0,
          Account::communication};
}

StepProgram::Head TeProgram::head(const BlockSpec& last) const {
  Head head;
  Chunk chunk;
  const std::int64_t logits = whole_ * shape_.vocab;
  const Tensor narrow{"logits", shape_.e() * logits, Account::logits};
  const Tensor wide{"softmax", 4 * logits, Account::logits};
  const Tensor d_logits{"d_logits", shape_.e() * logits, Account::logits};
  const Tensor d_rows{"d_normed", shape_.e() * whole_ * shape_.hidden};
  const Tensor scattered{"scattered", ranks_.gathers() ? boundary().bytes : 0};
  const Tensor dummy{"d_head", shape_.e() * shape_.vocab * shape_.hidden, Account::gradients};
  const Tensor normed{"norm", boundary().bytes};
  const Tensor stats{"norm statistics", (last.norm == NormKind::rms_norm ? 4 : 8) * rows_};

  head.before.make(normed).make(stats);
  chunk.forward.make(narrow);
  if (shape_.loss == LossKernel::fused) {  // in the logits' own storage
    chunk.backward.into(narrow, "d_logits");
  } else {
    chunk.loss.make(wide).drop(narrow);
    chunk.backward.make(d_logits).drop(wide);
  }
  chunk.backward.make(d_rows).make(scattered).make(dummy);
  chunk.backward.drop(dummy).drop(d_logits);
  if (ranks_.gathers()) chunk.backward.drop(d_rows);
  chunk.backward.drop(normed);
  chunk.backward.make(boundary()).drop(ranks_.gathers() ? scattered : d_rows);
  chunk.backward.drop(stats).drop(boundary());
  head.chunks = {chunk};
  return head;
}

}  // namespace planwright::estimator
