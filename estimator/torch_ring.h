#pragma once

#include <cstdint>

#include "estimator/tape_ops.h"

/// Attention of torch's context parallelism, whose ranks have two pieces of each sequence, one from
/// either end. Source: pytorch torch/distributed/tensor/experimental/_context_parallel/
/// _attention.py, _templated_ring_attention and its backward @ v2.11.0, as its options come: keys
/// and values are gathered at once, and sums are in fp32.
namespace planwright::estimator::tape {

/// q, k and v of a rank's tokens, which `heads` is of, among `ranks`; the last rank's, which has
/// most to do.
Var ring_attention(Graph& graph, const Var& q, const Var& k, const Var& v, const Heads& heads,
                   std::int64_t ranks);

}  // namespace planwright::estimator::tape
