#pragma once

#include <cstdint>

#include "estimator/tape_ops.h"
#include "estimator/te_ops.h"

/// A decoder's operators as torch runs them with the flash-attn library's kernels and matrices
/// spread over tensor ranks: what each makes, keeps for its backward, and makes there. Gradients of
/// weights are adopted by the graph. Sources: huggingface/nanotron src/nanotron @ 67c5ebb (branch
/// nouamane/bench2) and 2411b02; Dao-AILab/flash-attention flash_attn @ v2.7.0; the files are named
/// with each.
namespace planwright::estimator::tape {

/// A matrix of `weight` elements, this rank's share.
struct SpreadMatrix {
  std::int64_t weight = 0;
  TensorRanks ranks;
  /// The rows that it gathers stay for the backward, which else gathers them again, both times into
  /// a buffer of the process. Source: parallel/tensor_parallel/functional.py, column_linear.
  bool keeps_gathered = false;
  Account made_for = Account::activations;
};

/// RMSNorm in one kernel. Source: flash_attn/ops/triton/layer_norm.py, LayerNormFn.
Var fa_norm(Graph& graph, const Var& x, std::int64_t rows, std::int64_t width);
/// A product of `rows` local rows, which are gathered before it. Source:
/// parallel/tensor_parallel/functional.py, _ColumnLinearAsyncCommunication.
Var fa_column_linear(Graph& graph, const Var& x, std::int64_t rows, const SpreadMatrix& matrix);
/// A product of `rows` whole rows, whose sum over the ranks is scattered; its gradient is gathered
/// into a buffer of the process. `turned`: x lies in another order, and the product makes a copy.
/// Source: the same, _RowLinearAsyncCommunication.
Var fa_row_linear(Graph& graph, const Var& x, std::int64_t rows, const SpreadMatrix& matrix,
                  bool turned);
/// The same values in another order, forwards and backwards.
Var fa_reordered(Graph& graph, const Var& x);
/// Over all logits of this rank; the softmax is written over a copy of them, and its gradient over
/// the softmax. Source: the same file, _ShardedCrossEntropy.
Var fa_cross_entropy(Graph& graph, const Var& logits);

}  // namespace planwright::estimator::tape
