#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

/// What a model may have beyond a dense decoder of pre-norm blocks: each target says which of it it
/// runs, or which of it can be estimated for it.
namespace planwright {

enum class ModelFeature {
  experts,
  latent_attention,
  mamba,
  norm_kinds,
  norm_places,
  query_key_norms,
  partial_rotation,
  attention_sinks,
  capped_logits,
  positions,
  activations,
  embedding_parts,
  head_parts,
  shared_blocks,
  image_tower,
};
template <>
struct Words<ModelFeature> {
  static constexpr std::array<std::string_view, 15> kWords{
      "experts",         "latent_attention", "mamba",           "norm_kinds",    "norm_places",
      "query_key_norms", "partial_rotation", "attention_sinks", "capped_logits", "positions",
      "activations",     "embedding_parts",  "head_parts",      "shared_blocks", "image_tower"};
};

bool has_feature(const ModelSpec& model, ModelFeature feature);

/// One rule for each feature that is not among `runs`, `runs_experts` and so on; `source` says
/// where that is written.
std::vector<Rule> feature_rules(const std::vector<ModelFeature>& runs, const std::string& source);

/// The same of a target that may well run them, where it is the estimator that cannot: one rule for
/// each feature that is not among `estimated`, `estimates_experts` and so on.
std::vector<Rule> estimate_rules(const std::vector<ModelFeature>& estimated,
                                 const std::string& source);

}  // namespace planwright
