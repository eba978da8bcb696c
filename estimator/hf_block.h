#pragma once

#include "estimator/spec/model_spec.h"
#include "estimator/step_shape.h"
#include "estimator/tape_layers.h"

/// A decoder block as Hugging Face's modules run it, with PEFT's adapters and bitsandbytes' 4-bit
/// matrices. Sources: transformers src/transformers/models/llama/modeling_llama.py and
/// models/gpt2/modeling_gpt2.py @ v5.23.0; peft src/peft/tuners/lora/layer.py and bnb.py @ 0.13.2.
namespace planwright::estimator {

class HfBlock {
 public:
  HfBlock(tape::Graph& graph, const StepShape& shape, const BlockSpec& block)
      : graph_(graph), s_(shape), m_(shape.modules), b_(block), rows_(shape.tokens()) {}

  tape::Var forward(tape::Var x) const;
  /// Over groups of `width` of x.
  tape::Var norm(tape::Var x, std::int64_t width) const;

 private:
  using Var = tape::Var;

  Var rms_norm(Var x, std::int64_t width) const;
  Var project(const Var& x, LoraTarget target, std::int64_t outputs, bool bias) const;
  Var base(const Var& x, std::int64_t outputs, bool bias) const;
  Var adapted(const Var& x, Var result, std::int64_t outputs) const;
  Var rotate(const Var& x) const;
  Var attention(const Var& x) const;
  bool is_gpt2() const;
  std::vector<Var> queries_keys_values(const Var& x) const;
  Var attend(Var q, Var k, Var v) const;
  Var eager(const Var& q, const Var& k, const Var& v) const;
  Var mlp(const Var& x) const;
  Var gated(const Var& x) const;
  Var activation(const Var& x) const;
  Var gelu_new(const Var& x) const;
  Var dropped(const Var& x) const;

  DType compute(DType weights) const { return m_.autocast ? s_.compute : weights; }
  bool trained() const { return !s_.lora.freezes(); }
  bool is_adapted(LoraTarget target) const;
  std::int64_t queries() const { return b_.heads * b_.head_dim; }
  std::int64_t keys() const { return b_.kv_heads * b_.head_dim; }

  tape::Graph& graph_;
  const StepShape& s_;
  const HfModules& m_;
  const BlockSpec& b_;
  std::int64_t rows_;
};

}  // namespace planwright::estimator
