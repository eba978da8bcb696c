#pragma once

#include "estimator/step_program.h"
#include "estimator/te_ops.h"

namespace planwright::estimator {

/// Megatron Core's transformer layer out of Transformer Engine's modules. Source: Megatron-LM
/// megatron/core/transformer/transformer_layer.py, attention.py, mlp.py @ core_v0.14.0.
class TeProgram : public StepProgram {
 public:
  explicit TeProgram(const StepShape& shape);

  Tensor boundary() const override;
  Tensor ids() const override;
  Tensor targets() const override;
  Script embedding() const override;
  Script embedding_backward() const override;
  Script block(Turn turn, bool keeps_input, const BlockSpec& block) const override;
  Head head(NormKind norm) const override;
  /// megatron/core/pipeline_parallel/schedules.py: a local variable of the loop.
  bool keeps_sent_gradient() const override { return true; }
  Script resident(const ModelPart& part) const override;

 private:
  using Graph = tape::Graph;
  using Var = tape::Var;

  Script forward(Script* backward, bool keeps_input, const BlockSpec& share) const;
  Script rebuild_and_backward(const BlockSpec& share) const;
  Var given(Graph& graph, const char* name) const;
  Tensor dropout_mask() const;  ///< of the embedding

  StepShape shape_;
  tape::TensorRanks ranks_;
  std::int64_t rows_ = 0;   ///< tokens of this rank between the products
  std::int64_t whole_ = 0;  ///< tokens in them
};

}  // namespace planwright::estimator
