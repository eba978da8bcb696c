#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/model_spec.h"
#include "estimator/tape_ops.h"
#include "estimator/te_fp8.h"

/// Modules of Transformer Engine and Megatron Core as a rank runs them with gradients accumulated
/// into a buffer: what each makes, keeps for its backward, and makes there. Weights' gradients are
/// not theirs. Sources: TransformerEngine transformer_engine/pytorch @ v2.11, Megatron-LM
/// megatron/core @ core_v0.14.0; the files are named with each.
namespace planwright::estimator::tape {

/// How the rows of a sequence are spread over tensor ranks.
struct TensorRanks {
  std::int64_t count = 1;
  bool sp = false;  ///< each has rows of its own between the products
  /// Gradients of weights are made apart, and go when they have been added to the buffer.
  bool makes_wgrad = false;
  Fp8 fp8{};                 ///< what products take their operands in
  bool keeps_input = false;  ///< with it: backward makes its copy from the input as it came

  bool gathers() const { return sp && count > 1; }
  /// Rows of all of them, of those that one has between the products.
  std::int64_t whole(std::int64_t local) const { return gathers() ? local * count : local; }
  TensorRanks keeping_input(bool keeps) const {
    TensorRanks other = *this;
    other.keeps_input = keeps;
    return other;
  }
};

struct Norm {
  NormKind kind = NormKind::rms_norm;
  std::int64_t rows = 0;
};

/// Mean and deviation, or the latter alone, of each row.
Var te_statistics(Graph& graph, const Norm& norm);
/// A norm and a column-parallel product to `outputs`. Source: pytorch/module/layernorm_linear.py.
Var te_norm_linear(Graph& graph, const Var& x, const Norm& norm, std::int64_t outputs,
                   const TensorRanks& ranks);
/// LayerNorm or RMSNorm by itself. Source: pytorch/ops/basic/rmsnorm.py, layer_norm.py.
Var te_norm(Graph& graph, const Var& x, const Norm& norm);
/// A product of `rows` to `outputs` without a norm, column-parallel or whole on every rank. Source:
/// pytorch/module/linear.py, grouped_linear.py.
Var te_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
              const TensorRanks& ranks);
/// A row-parallel product of `rows` to `outputs`. Source: pytorch/module/linear.py.
Var te_row_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
                  const TensorRanks& ranks);
/// The same values elsewhere, of as many elements or another number: tokens that are sorted, sent
/// or gathered. `kept`: bytes that it keeps to find its way back.
Var te_move(Graph& graph, const Var& x, std::int64_t elements, std::int64_t kept = 0);
/// Rotary positions, out of place. Source: pytorch/attention/rope.py.
Var te_rotate(Graph& graph, const Var& x);
/// Query, key and value heads of all tokens, and what their scores are.
struct Qkv {
  Var q, k, v;
  std::int64_t queries = 0;  ///< query heads of all tokens
  std::int64_t keys = 0;     ///< tokens that each may see, those behind it included
};
/// cuDNN's attention. Source of the three: pytorch/attention/dot_product_attention/backends.py.
Var te_fused_attention(Graph& graph, const Qkv& qkv);
/// The same over `ranks` that share each sequence. Source: .../context_parallel.py,
/// AttnFuncWithCPAndQKVOA2A, AttnFuncWithCPAndKVP2P; of the ring, the rank that sees most.
Var te_exchanged_attention(Graph& graph, Qkv qkv);
Var te_ring_attention(Graph& graph, const Qkv& qkv, std::int64_t ranks);
/// The flash-attn library's, which wants [batch, seq] in this order, and gives it.
Var te_flash_attention(Graph& graph, Qkv qkv);
/// Scores, their softmax in one kernel, with dropout a mask and what it leaves, weighted values.
Var te_unfused_attention(Graph& graph, const Qkv& qkv, bool dropout);
/// SwiGLU of gate and up in one, or an activation with its bias: one kernel, which keeps its input.
/// With `weights` each row is multiplied by its own. Source:
/// megatron/core/fusions/fused_bias_swiglu.py, fused_bias_gelu.py.
Var te_activation(Graph& graph, const Var& x, bool gated, const Var& weights = {});
/// Rows multiplied by a number each, whose gradients are wanted too. Source: megatron/core/
/// transformer/mlp.py, per_token_scale.
Var te_weigh(Graph& graph, const Var& x, const Var& weights);
/// Tokens put back to where they came from, among others that are zero: `elements` in all. `adds`:
/// by index_add, which keeps what it adds. Source: megatron/core/transformer/moe/moe_utils.py,
/// unpermute.
Var te_put_back(Graph& graph, const Var& x, std::int64_t elements, bool adds);
/// The same tokens in the order that another rank, or all of them, have them in: `ranks` times as
/// many, or that part of them. Source: megatron/core/tensor_parallel/mappings.py.
Var te_gather(Graph& graph, const Var& x, std::int64_t ranks);
Var te_scatter(Graph& graph, const Var& x, std::int64_t ranks);
/// x with a branch added; with dropout a mask of a byte is kept. Source:
/// megatron/core/fusions/fused_bias_dropout.py.
Var te_add(Graph& graph, const Var& branch, const Var& x, bool dropout);

}  // namespace planwright::estimator::tape
