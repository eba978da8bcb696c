#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/model_part.h"
#include "estimator/spec/model_spec.h"
#include "probes/worker/block.h"
#include "probes/worker/dropout.h"
#include "probes/worker/kernels.h"
#include "probes/worker/tensor_parallel.h"
#include "probes/worker/weights.h"
#include "probes/worker/windows.h"

namespace planwright::worker {

/// A micro-batch of `batch` sequences, each of ids.numel() / batch tokens in a row. The first stage
/// reads ids, the last one targets.
struct MicroBatch {
  at::Tensor ids, targets;  ///< int64 [batch × seq]
  std::int64_t batch = 0;
  std::int64_t seq = 0;
};

/// How a micro-batch is taken through this rank's part of the model. Refers to what it is made
/// from.
struct PassContext {
  const ModelSpec& model;
  const ModelPart& part;
  const ModelWeights& weights;
  const Kernels& kernels;
  const TensorParallel& tensor;
  Windows& windows;
  Recompute recompute;
  double gradient_scale = 1;  ///< what the sum of the token losses is differentiated times
  AttentionKernel attention = AttentionKernel::flash;
  LossKernel loss = LossKernel::plain;
  Dropout dropout{};
};

/// One micro-batch in flight. Order of allocations and phases: docs/runtime.md.
class Pass {
 public:
  Pass(const PassContext& context, MicroBatch micro_batch);

  /// Up to the last block's output, which the next stage gets; the last stage keeps it and returns
  /// an undefined tensor. `x` is the output of the stage before, undefined on the first.
  at::Tensor forward(at::Tensor x);

  /// Adds to every weight's gradient. `dy` is the gradient of forward's output, undefined on the
  /// last stage, which does norm, head and loss here. Returns the gradient of x, undefined on the
  /// first stage.
  at::Tensor backward(at::Tensor dy);

  /// Sum of the token losses, after the last stage's backward.
  double loss() const { return loss_; }

 private:
  at::Tensor embed() const;
  DropMask embedding_mask() const;
  /// Norm, head and loss, forwards and backwards: the gradient of the last block's output.
  at::Tensor head(std::optional<std::int64_t> next);
  void head_forward();
  /// Logits, loss and the head's gradients of `rows` rows from `first` on.
  void head_chunk(std::int64_t first, std::int64_t rows);
  at::Tensor logits_of(const at::Tensor& whole) const;
  double loss_and_gradient(at::Tensor& logits, const at::Tensor& targets) const;
  void head_product_backward(at::Tensor logits, const at::Tensor& whole) const;
  at::Tensor head_backward();
  void rebuild(std::int64_t layer);
  void block_backward(std::int64_t layer, bool rebuilt, const at::Tensor& dy);
  void embedding_backward(const at::Tensor& dy);

  /// `layer` counts within the stage.
  BlockContext block(std::int64_t layer) const;
  VocabShare vocab() const;
  std::int64_t unit(std::int64_t layer) const {
    return c_.part.block_unit(c_.part.first_layer + layer);
  }
  at::TensorOptions options() const;
  /// What statistics and the loss are computed in.
  at::ScalarType wide() const {
    return accumulation_type(c10::typeMetaToScalarType(options().dtype()));
  }
  std::int64_t rows() const { return in_.batch * in_.seq; }

  PassContext c_;
  MicroBatch in_;
  std::vector<at::Tensor> inputs_;     ///< of each block that keeps it, then of the final norm
  std::vector<BlockState> states_;     ///< of each block that keeps it
  at::Tensor normed_, whole_, stats_;  ///< the final norm's output, all its rows, its statistics
  double loss_ = 0;
};

/// Forward and backward pass of the whole model: the sum of the token losses.
double forward_backward(const PassContext& context, MicroBatch micro_batch);

}  // namespace planwright::worker
