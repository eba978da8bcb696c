#pragma once

#include "estimator/step_shape.h"
#include "estimator/tape_recompute.h"
#include "estimator/te_ops.h"

namespace planwright::estimator::tape {

/// Megatron Core's transformer layer out of Transformer Engine's modules, forwards; autograd makes
/// the backward. Blocks are this rank's share, but for experts, which are the model's. Source:
/// Megatron-LM megatron/core/transformer/transformer_layer.py @ core_v0.14.0; the files of its
/// parts are named with them.
class TeBlock {
 public:
  TeBlock(Graph& graph, const StepShape& shape);

  Var forward(const Var& x, const BlockSpec& share) const;

 private:
  using Group = std::optional<std::size_t>;  ///< of modules whose inputs are offloaded

  const OffloadedModules& offloaded() const { return s_.activations.modules; }
  const RecomputedModules& again() const { return s_.again; }
  Var attention(const Var& x, const BlockSpec& share) const;
  Var latent_attention(const Var& x, const BlockSpec& share, Group attn_norm) const;
  Var projection(Var x) const;
  Var core_attention(Qkv qkv) const;
  Var attention_kernel(Qkv qkv) const;
  TensorRanks behind(bool made_again, const TensorRanks& ranks) const;
  WithoutOutput norm(const Var& x, NormKind kind) const;
  std::vector<Var> latent_vectors(const Var& normed, const LatentSpec& latent) const;
  std::vector<Var> lead_up(const std::vector<Var>& latent, const BlockSpec& share) const;
  Var mlp(const Var& x, const BlockSpec& share) const;
  Var moe(const Var& x, const BlockSpec& share, Group mlp_norm) const;
  Var shared_and_routed(const Var& normed, const BlockSpec& share) const;
  Var shared_expert(const Var& normed, const BlockSpec& share) const;
  Var routed(const Var& x, const BlockSpec& share) const;
  Var sent(const Var& x, const BlockSpec& share) const;
  Var gathered(const Var& x, const BlockSpec& share) const;
  Var experts(const Var& tokens, const BlockSpec& share, std::int64_t rows) const;
  Var activated(const Var& x, bool gated, const Var& probabilities) const;

  Graph& graph_;
  const StepShape& s_;
  TensorRanks ranks_, alone_;
  TensorRanks keeping_;     ///< ranks_, of products whose input is kept anyway
  std::int64_t rows_ = 0;   ///< tokens of this rank between the products
  std::int64_t whole_ = 0;  ///< tokens in them
};

}  // namespace planwright::estimator::tape
