#include "launcher/targets/megatron/model_rules.h"

#include <algorithm>

#include "estimator/spec/model_features.h"

namespace planwright::targets::megatron {
namespace {

constexpr const char* kArguments =
    "NVIDIA/Megatron-LM megatron/training/arguments.py @ core_v0.14.0 to 0.19.0";
constexpr const char* kLayer =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_layer.py @ core_v0.14.0";
constexpr const char* kMlp = "NVIDIA/Megatron-LM megatron/core/transformer/mlp.py @ core_v0.14.0";
constexpr const char* kMoe =
    "NVIDIA/Megatron-LM megatron/core/transformer/moe/moe_layer.py @ core_v0.14.0";

constexpr const char* kLatent =
    "NVIDIA/Megatron-LM megatron/core/transformer/multi_latent_attention.py @ core_v0.14.0";

template <class Broken>
Rule block_rule(const char* name, Broken broken, const char* text, const char* source) {
  return {name,
          [broken](const Problem& p, const Candidate&) {
            return p.model.any_block([&](const BlockSpec& block) { return broken(p, block); });
          },
          text, "", source};
}

/// What has words here, as far as the rules below do not refuse it.
bool is_written(ModelFeature feature) {
  return feature == ModelFeature::experts || feature == ModelFeature::activations ||
         feature == ModelFeature::latent_attention;
}

/// One for each feature that has no words here. Of norms and activations the words are below.
std::vector<Rule> unwritten_features() {
  std::vector<Rule> rules;
  for (const std::string& name : all_words<ModelFeature>()) {
    const ModelFeature feature = *from_word<ModelFeature>(name);
    if (is_written(feature)) continue;
    std::string spoken = name;
    std::replace(spoken.begin(), spoken.end(), '_', ' ');
    rules.push_back(
        {"writes_" + name,
         [feature](const Problem& p, const Candidate&) { return has_feature(p.model, feature); },
         "these files have no arguments for the model's " + spoken, "", kArguments});
  }
  return rules;
}

bool has_activation(const BlockSpec& block) {
  if (block.mlp == MlpKind::gated) return block.activation == Activation::silu;
  return block.activation != Activation::silu && block.activation != Activation::relu;
}

bool has_biases(const BlockSpec& block) {
  if (block.out_bias != block.mlp_bias) return false;
  return block.qkv_bias || !block.out_bias;
}

/// The MLP apart, which --moe-layer-freq chooses layer by layer.
bool are_alike(const ModelSpec& model) {
  const auto without_mlp = [](BlockSpec block) {
    block.ffn = 0;
    block.moe.reset();
    return block;
  };
  const BlockSpec first = without_mlp(model.block(0));
  return std::all_of(model.runs.begin(), model.runs.end(),
                     [&](const BlockRun& run) { return without_mlp(run.block) == first; });
}

/// Of each kind, dense and with experts, there is one width.
bool have_one_mlp_each(const ModelSpec& model) {
  const BlockSpec* seen[2] = {nullptr, nullptr};
  for (const BlockRun& run : model.runs) {
    const BlockSpec*& of_kind = seen[run.block.moe.has_value()];
    if (of_kind == nullptr) of_kind = &run.block;
    if (of_kind->ffn != run.block.ffn || of_kind->moe != run.block.moe) return false;
  }
  return true;
}

bool has_plain_experts(const MoeSpec& moe) {
  return !moe.shared_gate && !moe.router_bias && !moe.expert_bias;
}

}  // namespace

std::vector<Rule> model_rules() {
  std::vector<Rule> rules = unwritten_features();
  rules.push_back({"blocks_alike",
                   [](const Problem& p, const Candidate&) {
                     return !are_alike(p.model) || !have_one_mlp_each(p.model);
                   },
                   "Megatron-LM's arguments describe one kind of block, with or without experts, "
                   "and the model has several",
                   "", kArguments});
  rules.push_back({"decoder_only",
                   [](const Problem& p, const Candidate&) { return p.model.encoder; },
                   "pretrain_gpt.py trains decoders, and the model is an encoder", "",
                   "NVIDIA/Megatron-LM pretrain_gpt.py @ core_v0.14.0"});
  rules.push_back(block_rule(
      "sequential_residual",
      [](const Problem&, const BlockSpec& b) { return b.residual != Residual::sequential; },
      "Megatron Core's layer adds attention before its MLP, and the model adds both at once",
      kLayer));
  rules.push_back(block_rule(
      "activation_in_files", [](const Problem&, const BlockSpec& b) { return !has_activation(b); },
      "Megatron-LM's MLPs are SwiGLU, or plain with GELU or squared ReLU, and the model's are not",
      kMlp));
  rules.push_back(block_rule(
      "biases_in_files", [](const Problem&, const BlockSpec& b) { return !has_biases(b); },
      "Megatron-LM has biases in all linear layers, in those of queries, keys and values, or in "
      "none, and the model has them elsewhere",
      kArguments));
  rules.push_back(block_rule(
      "query_norms_in_files",
      [](const Problem&, const BlockSpec& b) { return b.qk_norm && b.norm != NormKind::rms_norm; },
      "--qk-layernorm has the kind of --normalization, and the model's norms of queries and keys "
      "are of another",
      kArguments));
  rules.push_back(block_rule(
      "latent_attention_in_files",
      [](const Problem& p, const BlockSpec& b) {
        return b.latent && (b.qk_norm || b.qkv_bias || p.model.positions != Positions::rotary);
      },
      "Megatron-LM's latent attention has rotary positions, and neither biases nor other norms "
      "than "
      "those of its latent vectors",
      kLatent));
  rules.push_back(block_rule(
      "no_window",
      [](const Problem& p, const BlockSpec& b) {
        return b.sliding_window > 0 && b.sliding_window < p.workload.seq;
      },
      "these files have no sliding window, and {seq} tokens are more than the model's "
      "{sliding_window}",
      kArguments));
  rules.push_back(block_rule(
      "writes_plain_experts",
      [](const Problem&, const BlockSpec& b) { return b.moe && !has_plain_experts(*b.moe); },
      "these files have no arguments for the biases or the gate of the model's experts", kMoe));
  return rules;
}

}  // namespace planwright::targets::megatron
