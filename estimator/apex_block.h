#pragma once

#include <vector>

#include "estimator/step_shape.h"
#include "estimator/te_ops.h"

namespace planwright::estimator::tape {

/// Megatron's transformer layer before Transformer Engine: apex's fused norm, torch's products, a
/// fused softmax over all scores, fused bias, GELU and dropout. Blocks are this rank's share.
/// Source: bigscience-workshop/Megatron-DeepSpeed megatron/model/transformer.py, fused_softmax.py,
/// fused_bias_gelu.py, megatron/mpu/layers.py @ 8387ae1.
class ApexBlock {
 public:
  ApexBlock(Graph& graph, const StepShape& shape)
      : graph_(graph), s_(shape), rows_(shape.tokens()) {}

  Var forward(const Var& x, const BlockSpec& share) const;
  Var norm(const Var& x, NormKind kind) const;

 private:
  Var attention(const Var& x, const BlockSpec& share) const;
  Var core_attention(Qkv qkv) const;
  Var unfused(const Qkv& qkv) const;
  Var mlp(const Var& x, const BlockSpec& share) const;
  Var product(const Var& x, std::int64_t outputs, bool bias) const;

  Graph& graph_;
  const StepShape& s_;
  std::int64_t rows_;
};

}  // namespace planwright::estimator::tape
