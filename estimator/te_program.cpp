#include "estimator/te_program.h"

#include <utility>

#include "estimator/te_block.h"

namespace planwright::estimator {

using namespace tape;

namespace {

/// Of products that are one kernel each has a workspace. Source: TransformerEngine
/// pytorch/cpp_extensions/gemm.py, get_cublas_workspace @ v2.11.
constexpr std::int64_t kGroupStreams = 4;

}  // namespace

TeProgram::TeProgram(const StepShape& shape)
    : TapeProgram(shape),
      ranks_{shape.tp, shape.sp},
      rows_(shape.local_tokens()),
      whole_(shape.tokens()) {}

Tensor TeProgram::boundary() const { return hidden_rows(shape_, "hidden states"); }

/// Tokens, labels and positions of 8 bytes, the loss mask of 4, on both end stages, and with each
/// the mask of attention. Source: megatron/training/utils.py, get_batch_on_this_tp_rank.
Tensor TeProgram::ids() const {
  const std::int64_t mask = shape_.te.gets_masks ? shape_.batch * shape_.seq * shape_.seq : 0;
  return {"batch", (8 + 8 + 8 + 4) * whole_ + mask};
}
Tensor TeProgram::targets(const ModelPart& part) const {
  return part.first ? Tensor{"batch", 0} : ids();
}

Var TeProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  graph.least_elements = shape_.activations.least_elements;
  return TeBlock(graph, shape_).forward(x, share);
}

/// Masked where the rank has no row of the matrix and summed over the ranks, with positions added,
/// and turned to [seq, batch, hidden]. Source: megatron/core/models/common/embeddings/
/// language_model_embedding.py, megatron/core/tensor_parallel/layers.py, VocabParallelEmbedding.
Script TeProgram::embedding() const {
  const Tensor rows{"embedded", shape_.e() * whole_ * shape_.hidden};
  Script script;
  script.make(rows);
  if (!shape_.rotary) script.make(rows).make(rows).drop(rows).drop(rows);
  script.make(boundary()).drop(rows);
  if (shape_.hidden_dropout) script.make(dropout_mask()).make(boundary()).drop(boundary());
  return script;
}

/// The matrix's gradient is made apart and added to the buffer.
Script TeProgram::embedding_backward() const {
  const Tensor gradient{"d_embedding", shape_.e() * shape_.vocab * shape_.hidden,
                        Account::gradients};
  const Tensor rows{"gathered", ranks_.gathers() ? shape_.e() * whole_ * shape_.hidden : 0,
                    Account::communication};
  Script script;
  if (shape_.hidden_dropout) script.make(boundary()).drop(boundary()).drop(dropout_mask());
  script.make(rows).make(gradient).drop(gradient).drop(rows);
  return script.drop(boundary());
}

Tensor TeProgram::dropout_mask() const { return {"mask", rows_ * shape_.hidden}; }

/// The output layer gathers into a buffer of the process that is never given back, and alone uses
/// torch's products: the forward's thread and the backward's have a workspace each. Sources:
/// megatron/core/utils.py, GlobalMemoryBuffer; megatron/training/determinism.py, which sets
/// CUBLAS_WORKSPACE_CONFIG to :4096:8; pytorch aten/src/ATen/cuda/CublasHandlePool.cpp @
/// v2.10.0; TransformerEngine pytorch/module/base.py, get_cublas_workspace_size_bytes.
Script TeProgram::resident(const ModelPart& part) const {
  constexpr std::int64_t kMebi = std::int64_t{1} << 20;
  const bool known = shape_.capability > 0;
  const bool large = shape_.te.deterministic || (known && shape_.capability == 9);
  const std::int64_t torch = large ? 32 * kMebi : kMebi * 65 / 8;
  const std::int64_t te = known && shape_.capability < 9 ? 4 * kMebi : 32 * kMebi;
  const bool gathers = part.last && ranks_.gathers();
  Script script;
  const std::int64_t streams = shape_.experts && shape_.te.groups_experts ? kGroupStreams : 0;
  script.make({"Transformer Engine's workspaces", (1 + streams) * te, Account::workspace});
  if (part.last) script.make({"matrix library's workspaces", 2 * torch, Account::workspace});
  return script.make({"output layer's gathered rows",
                      gathers ? shape_.e() * whole_ * shape_.hidden : 0, Account::communication});
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
