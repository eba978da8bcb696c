#pragma once

#include "estimator/te_ops.h"

/// The products of te_ops with operands in 8 bits: each makes a copy for its forward and one that
/// its backward takes, which it keeps in its input's place. Results, and gradients of inputs, are
/// as wide as without. Sources as there; what is gathered: pytorch/distributed.py,
/// gather_along_first_dim @ v2.11.
namespace planwright::estimator::tape {

Var fp8_norm_linear(Graph& graph, const Var& x, const Norm& norm, std::int64_t outputs,
                    const TensorRanks& ranks);
Var fp8_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
               const TensorRanks& ranks);
Var fp8_row_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
                   const TensorRanks& ranks);

}  // namespace planwright::estimator::tape
