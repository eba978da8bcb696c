#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

/// What a model may have beyond a dense decoder of pre-norm blocks: each target says which of it it
/// runs.
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

/// One rule for each feature that is not among `runs`; `source` says where that is written.
std::vector<Rule> feature_rules(const std::vector<ModelFeature>& runs, const std::string& source);

}  // namespace planwright
