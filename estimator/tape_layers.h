#pragma once

#include <cstdint>

#include "estimator/tape_ops.h"

/// Layers and losses of torch under autograd, as tape_ops has the plain operators. Source: pytorch
/// tools/autograd/derivatives.yaml and aten/src/ATen/autocast_mode.cpp @ v2.11.0.
namespace planwright::estimator::tape {

/// A matrix as a linear layer has it; products are computed in `compute`.
struct Matrix {
  Weight weight;
  DType compute = DType::fp32;
  bool bias = false;
  Account made_for = Account::activations;
  std::int64_t groups = 1;  ///< of as many rows each, which are multiplied by a part of it: experts
};

/// x and the weight in the type that is computed in: where that is not theirs, each product has
/// copies of its own, which belong to the graph. A trained weight's copies are kept for the whole
/// of a forward that no gradients are wanted of, and are not made here.
Var linear(Graph& graph, const Var& x, const Matrix& matrix, std::int64_t rows);

/// The same with operands that each product brings to 8 bits by itself: the input is kept as it
/// came, and the backward's two products have copies of their own. Source: pytorch/ao
/// torchao/float8/float8_linear.py, matmul_with_hp_or_float8_args @ v0.14.1.
Var float8_linear(Graph& graph, const Var& x, const Matrix& matrix, std::int64_t rows);

/// A frozen matrix in 4 bits, of which every product makes a copy in `compute`. Source:
/// bitsandbytes autograd/_functions.py, MatMul4Bit, and nn/modules.py, Linear4bit @ 0.45.0.
struct Quantised {
  std::int64_t elements = 0;
  DType compute = DType::bf16;
  bool keeps_input = false;   ///< before 0.43.2
  bool through_half = false;  ///< it was packed from fp16, which each copy is made of first
};
Var linear(Graph& graph, const Var& x, const Quantised& matrix, std::int64_t rows);

/// A copy in another layout; gradients come back as they are.
Var copy(Graph& graph, const Var& x);
/// Rotary positions of halves, by cosines and sines of a type. Source: transformers
/// models/llama/modeling_llama.py, apply_rotary_pos_emb @ v5.23.0.
Var rotary(Graph& graph, const Var& x, DType table);
/// Each element `times` times: expand and reshape.
Var repeat(Graph& graph, const Var& x, std::int64_t times);
/// By a number.
Var scale(Graph& graph, const Var& x);
Var dropout(Graph& graph, const Var& x);
Var tanh(Graph& graph, const Var& x);
/// `parts` along the last dimension, as views; their gradients are put together.
std::vector<Var> split(Graph& graph, const Var& x, const std::vector<std::int64_t>& elements);
/// The first `elements`, as a view.
Var narrow(Graph& graph, const Var& x, std::int64_t elements);

Var layer_norm(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows);
/// `_fused_rms_norm`.
Var rms_norm(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows);
/// One kernel that keeps its input and writes the gradient over the one it is given. Source:
/// unslothai/unsloth unsloth/kernels/rms_layernorm.py.
Var fused_rms_norm(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows);
/// SwiGLU of two operands whose gradients are written over them. Source: linkedin/Liger-Kernel
/// src/liger_kernel/ops/swiglu.py.
Var fused_swiglu(Graph& graph, const Var& gate, const Var& up);

/// Batches of products, of two operands that have gradients: `bmm`.
Var batched_product(Graph& graph, const Var& a, const Var& b, std::int64_t elements);
Var softmax(Graph& graph, const Var& x, DType type);

/// Source: aten/src/ATen/native/LossNLL.cpp.
Var cross_entropy(Graph& graph, const Var& logits);
/// Of `rows` of logits: one kernel, whose gradient is written over them. Source: unslothai/unsloth
/// unsloth/kernels/cross_entropy_loss.py.
Var fused_cross_entropy(Graph& graph, const Var& logits, std::int64_t rows);
/// flash-attn's, which leaves the logits as they are unless it is told otherwise. Source:
/// Dao-AILab/flash-attention flash_attn/losses/cross_entropy.py, inplace_backward @ v1.0.9.
Var flash_cross_entropy(Graph& graph, const Var& logits, std::int64_t rows);

}  // namespace planwright::estimator::tape
