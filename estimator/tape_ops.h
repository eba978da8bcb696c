#pragma once

#include <cstdint>
#include <vector>

#include "estimator/tape_graph.h"

/// Operators of torch: what each makes, what it saves for its backward, and what that makes in
/// which order. Source: pytorch tools/autograd/derivatives.yaml @ v2.11.0, the operator of that
/// name.
namespace planwright::estimator::tape {

/// A parameter, or a gathered one: its own bytes are no matter of the graph.
struct Weight {
  std::int64_t elements = 0;
  DType type = DType::fp32;
  bool trained = true;
};

/// Of two types, the one that a result of both has.
DType promoted(DType a, DType b);

/// The same tensor if it is of that type already: `Tensor.to`.
Var to(Graph& graph, const Var& x, DType type);
Var add(Graph& graph, const Var& a, const Var& b);
/// Of equal sizes, or of one that is repeated over the other.
Var mul(Graph& graph, const Var& a, const Var& b);
Var mul(Graph& graph, const Weight& weight, const Var& x);
Var square(Graph& graph, const Var& x);
/// Over rows: `rows` are left.
Var mean(Graph& graph, const Var& x, std::int64_t rows);
Var rsqrt(Graph& graph, const Var& x);
Var neg(Graph& graph, const Var& x);
Var silu(Graph& graph, const Var& x);
Var gelu(Graph& graph, const Var& x);
/// Views of the same bytes, `parts` of equal size along the last dimension.
std::vector<Var> chunk(Graph& graph, const Var& x, int parts);
Var cat(Graph& graph, const std::vector<Var>& parts);
/// rows × inputs to rows × outputs, by a matrix without bias: `mm`.
Var linear(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows);

struct Heads {
  std::int64_t batch, seq, heads, kv_heads, width;
  /// The kernel's backward, on an accelerator, sums dq in fp32, and makes dk and dv for each query
  /// head before it adds up those that share one. Source: Dao-AILab/flash-attention
  /// csrc/flash_attn/flash_api.cpp, mha_bwd @ v2.7.0.
  bool sums_apart = false;
  std::int64_t forward_workspace = 0, backward_workspace = 0;  ///< of a CPU's kernel
  std::int64_t value_width = 0;  ///< of a value head, if it is another one
};
/// `_scaled_dot_product_flash_attention`.
Var flash_attention(Graph& graph, const Var& q, const Var& k, const Var& v, const Heads& heads);

}  // namespace planwright::estimator::tape
