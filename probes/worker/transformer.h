#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "estimator/spec/model_spec.h"
#include "probes/worker/kernels.h"
#include "probes/worker/weights.h"

namespace planwright::worker {

/// A micro-batch of `batch` sequences, each of ids.numel() / batch tokens in a row.
struct MicroBatch {
  at::Tensor ids, targets;  ///< int64 [batch × seq]
  std::int64_t batch = 0;
};

/// How a micro-batch is taken through the model. Refers to what it is made from.
struct PassContext {
  const ModelSpec& model;
  const ModelWeights& weights;
  const Kernels& kernels;
  bool recompute = false;     ///< make each block's state again in backward
  double gradient_scale = 1;  ///< what the sum of the token losses is differentiated times
};

/// Forward and backward pass: adds to every weight's gradient and returns the sum of the token
/// losses. Order of allocations and phases: docs/runtime.md.
double forward_backward(const PassContext& context, MicroBatch micro_batch);

}  // namespace planwright::worker
