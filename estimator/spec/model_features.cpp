#include "estimator/spec/model_features.h"

#include <algorithm>
#include <string>

#include "estimator/spec/problem.h"

namespace planwright {
namespace {

bool usual_activation(const BlockSpec& b) {
  return b.activation == Activation::silu || b.activation == Activation::gelu_tanh;
}

/// In words, after "the model has".
std::string described(ModelFeature feature) {
  switch (feature) {
    case ModelFeature::experts:
      return "experts in the place of its MLPs";
    case ModelFeature::latent_attention:
      return "latent attention";
    case ModelFeature::mamba:
      return "Mamba layers";
    case ModelFeature::norm_kinds:
      return "norms without biases or weights";
    case ModelFeature::norm_places:
      return "norms after its attention and MLPs";
    case ModelFeature::query_key_norms:
      return "norms of queries and keys that are not RMSNorms of heads";
    case ModelFeature::partial_rotation:
      return "rotary positions on a part of each head";
    case ModelFeature::attention_sinks:
      return "attention sinks";
    case ModelFeature::capped_logits:
      return "capped logits";
    case ModelFeature::positions:
      return "no learned or rotary positions";
    case ModelFeature::activations:
      return "an activation that is neither SiLU nor GELU in its tanh form";
    case ModelFeature::embedding_parts:
      return "embeddings with a norm, a width or rows of their own";
    case ModelFeature::head_parts:
      return "a head with a bias or a transform, or no final norm";
    case ModelFeature::shared_blocks:
      return "blocks that share their weights";
    case ModelFeature::image_tower:
      return "an image tower";
  }
  return "";
}

/// One for each feature that is not among `known`.
std::vector<Rule> rules_of(const std::vector<ModelFeature>& known, const std::string& prefix,
                           const std::string& refusal, const std::string& source) {
  std::vector<Rule> rules;
  for (std::size_t i = 0; i < kWordCount<ModelFeature>; ++i) {
    const auto feature = static_cast<ModelFeature>(i);
    if (std::find(known.begin(), known.end(), feature) != known.end()) continue;
    rules.push_back({prefix + std::string(word(feature)),
                     [feature](const Problem& problem, const Candidate&) {
                       return has_feature(problem.model, feature);
                     },
                     "the model has " + described(feature) + ", which " + refusal,
                     "its sizes are known to `planwright models` and to --job inference", source});
  }
  return rules;
}

}  // namespace

bool has_feature(const ModelSpec& m, ModelFeature feature) {
  switch (feature) {
    case ModelFeature::experts:
      return m.has_experts();
    case ModelFeature::latent_attention:
      return m.any_block([](const BlockSpec& b) { return b.latent.has_value(); });
    case ModelFeature::mamba:
      return m.any_block([](const BlockSpec& b) { return b.mamba.has_value(); });
    case ModelFeature::norm_kinds:
      return m.any_block([](const BlockSpec& b) {
        return b.norm != NormKind::layer_norm && b.norm != NormKind::rms_norm;
      });
    case ModelFeature::norm_places:
      return m.any_block([](const BlockSpec& b) { return b.norm_place != NormPlace::input; });
    case ModelFeature::query_key_norms:
      return m.any_block(
          [](const BlockSpec& b) { return b.qk_norm && b.qk_norm_kind != QkNorm::heads_rms; });
    case ModelFeature::partial_rotation:
      return m.any_block([](const BlockSpec& b) { return b.rotary_dim > 0 && !b.latent; });
    case ModelFeature::attention_sinks:
      return m.any_block([](const BlockSpec& b) { return b.sinks; });
    case ModelFeature::capped_logits:
      return m.logit_cap || m.any_block([](const BlockSpec& b) { return b.logit_cap; });
    case ModelFeature::positions:
      return m.positions == Positions::alibi || m.positions == Positions::none;
    case ModelFeature::activations:
      return m.any_block([](const BlockSpec& b) { return !usual_activation(b); });
    case ModelFeature::embedding_parts:
      return m.position_offset > 0 || m.token_types > 0 || m.embedding_width > 0 ||
             m.embedding_norm;
    case ModelFeature::head_parts:
      return !m.final_norm || m.head_transform || m.head_bias;
    case ModelFeature::shared_blocks:
      return std::any_of(m.runs.begin(), m.runs.end(),
                         [](const BlockRun& run) { return run.shared; });
    case ModelFeature::image_tower:
      return m.tower_parameters > 0;
  }
  return false;
}

std::vector<Rule> feature_rules(const std::vector<ModelFeature>& runs, const std::string& source) {
  return rules_of(runs, "runs_", "{target} does not run", source);
}

std::vector<Rule> estimate_rules(const std::vector<ModelFeature>& estimated,
                                 const std::string& source) {
  return rules_of(estimated, "estimates_", "this version cannot estimate for target {target}",
                  source);
}

}  // namespace planwright
