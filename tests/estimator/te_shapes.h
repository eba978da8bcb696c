#pragma once

#include <cstdint>

#include "estimator/te_program.h"
#include "tests/support/net_bytes.h"

/// Small blocks and micro-batches for Transformer Engine's kernels.
namespace planwright::testing {

constexpr std::int64_t kHeads = 4;

/// GPT: as many key/value heads, GELU, LayerNorms.
inline BlockSpec gpt_block(std::int64_t hidden, std::int64_t ffn) {
  BlockSpec block;
  block.heads = block.kv_heads = kHeads;
  block.head_dim = hidden / kHeads;
  block.ffn = ffn;
  return block;
}

/// Llama: half as many key/value heads, SwiGLU, RMSNorms.
inline BlockSpec llama_block(std::int64_t hidden, std::int64_t ffn) {
  BlockSpec block = gpt_block(hidden, ffn);
  block.kv_heads = kHeads / 2;
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  return block;
}

/// In bf16 on a device of compute capability 9.0.
inline estimator::StepShape te_shape(std::int64_t batch, std::int64_t seq, std::int64_t hidden) {
  estimator::StepShape shape;
  shape.batch = batch;
  shape.seq = seq;
  shape.hidden = hidden;
  shape.vocab = 96;
  shape.compute = DType::bf16;
  shape.kernels = KernelSet::transformer_engine;
  shape.device = DeviceKind::cuda;
  shape.capability = 9;
  return shape;
}

/// What a block keeps for its backward, its input counted and its output not.
inline std::int64_t state_of(const estimator::StepShape& shape, const BlockSpec& block) {
  const estimator::TeProgram program(shape);
  return net(program.block(estimator::StepProgram::Turn::forward_kept, true, block));
}

}  // namespace planwright::testing
