#pragma once

#include "estimator/tape_program.h"
#include "estimator/te_ops.h"

namespace planwright::estimator {

/// Megatron Core's transformer layer out of Transformer Engine's modules. Source: Megatron-LM
/// megatron/core/transformer/transformer_layer.py, attention.py, mlp.py @ core_v0.14.0; blocks that
/// are run again hold what megatron/core/tensor_parallel/random.py, CheckpointFunction, holds.
class TeProgram : public TapeProgram {
 public:
  explicit TeProgram(const StepShape& shape);

  Tensor boundary() const override;
  Tensor ids() const override;
  Tensor targets(const ModelPart& part) const override;
  Script embedding() const override;
  Script embedding_backward() const override;
  Head head(const BlockSpec& last) const override;
  /// megatron/core/pipeline_parallel/schedules.py: a local variable of the loop.
  bool keeps_sent_gradient() const override { return true; }
  Script resident(const ModelPart& part) const override;

 private:
  Var block_forward(Graph& graph, const Var& x, const BlockSpec& share) const override;
  Tensor dropout_mask() const;  ///< of the embedding

  tape::TensorRanks ranks_;
  std::int64_t rows_ = 0;   ///< tokens of this rank between the products
  std::int64_t whole_ = 0;  ///< tokens in them
};

}  // namespace planwright::estimator
