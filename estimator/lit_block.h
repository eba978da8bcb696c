#pragma once

#include <vector>

#include "estimator/spec/model_spec.h"
#include "estimator/step_shape.h"
#include "estimator/tape_layers.h"

/// A decoder block as litgpt's modules run it, with its own adapters and bitsandbytes' 4-bit
/// matrices. Sources: Lightning-AI/litgpt litgpt/model.py and lora.py @ v0.5.9, and what is called
/// old here @ v0.4.0.
namespace planwright::estimator {

class LitBlock {
 public:
  LitBlock(tape::Graph& graph, const StepShape& shape, const BlockSpec& block)
      : graph_(graph), s_(shape), m_(shape.modules), b_(block), rows_(shape.tokens()) {}

  tape::Var forward(tape::Var x) const;
  tape::Var norm(tape::Var x) const;

 private:
  using Var = tape::Var;

  Var rms_norm(Var x) const;
  Var base(const Var& x, std::int64_t outputs, bool bias) const;
  Var linear(const Var& x, const std::vector<LoraTarget>& parts, std::int64_t outputs,
             bool bias) const;
  Var lowered(const Var& x, std::int64_t rank) const;
  Var padded(const Var& update, std::int64_t outputs) const;
  Var qkv(const Var& x) const;
  Var attention(const Var& x) const;
  Var rotate(const Var& x) const;
  Var rotated_part(const Var& x) const;
  Var attend(const Var& q, const Var& k, const Var& v) const;
  Var capped_attention(const Var& q, const Var& k, const Var& v) const;
  Var mlp(const Var& x) const;
  Var activation(const Var& x) const;

  bool is_adapted(LoraTarget target) const;
  bool trained() const { return !s_.lora.freezes(); }
  DType compute(DType weights) const { return m_.autocast ? s_.compute : weights; }
  std::int64_t queries() const { return b_.heads * b_.head_dim; }
  std::int64_t keys() const { return b_.kv_heads * b_.head_dim; }
  bool grouped() const { return b_.heads > b_.kv_heads; }

  tape::Graph& graph_;
  const StepShape& s_;
  const HfModules& m_;
  const BlockSpec& b_;
  std::int64_t rows_;
};

}  // namespace planwright::estimator
