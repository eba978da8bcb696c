#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/targets/megatron/arguments.h"

namespace planwright::targets::megatron {
namespace {

constexpr const char* kYarn = "yarn";
constexpr const char* kLlama3 = "llama3";

bool scores_by_sigmoid(const MoeSpec& moe) {
  return moe.score == RouterScore::sigmoid || moe.selection_bias;
}

/// The first one with, or without, experts.
const BlockSpec* find_block(const ModelSpec& model, bool experts) {
  const auto found = std::find_if(model.runs.begin(), model.runs.end(), [&](const BlockRun& run) {
    return run.block.moe.has_value() == experts;
  });
  return found == model.runs.end() ? nullptr : &found->block;
}

/// YaRN is the default where attention is latent, by a factor of 40; its other numbers have no
/// arguments.
void add_latent_scaling(Json& json, const std::optional<RopeScaling>& scaling) {
  const bool yarn = scaling && scaling->type == kYarn;
  json["rope-type"] = yarn ? kYarn : "rope";
  if (!yarn) return;
  json["rotary-scaling-factor"] = scaling->factor;
  json["mscale"] = scaling->mscale;
  json["mscale-all-dim"] = scaling->mscale_all_dim;
}

/// Norms of the latent vectors are those of queries and keys here.
void add_latent(Json& json, const ModelSpec& model, const LatentSpec& latent) {
  json["multi-latent-attention"] = true;
  if (latent.q_rank > 0) json["q-lora-rank"] = latent.q_rank;
  json["kv-lora-rank"] = latent.kv_rank;
  json["qk-head-dim"] = latent.nope_dim;
  json["qk-pos-emb-head-dim"] = latent.rope_dim;
  json["v-head-dim"] = latent.value_dim;
  json["kv-channels"] = latent.value_dim;
  json["qk-layernorm"] = true;
  add_latent_scaling(json, model.rope_scaling);
  json["no-rope-fusion"] = true;
}

void add_attention(Json& json, const ModelSpec& model, const BlockSpec& block) {
  json["num-attention-heads"] = block.heads;
  if (block.latent) return add_latent(json, model, *block.latent);
  json["kv-channels"] = block.head_dim;
  if (block.kv_heads != block.heads) {
    json["group-query-attention"] = true;
    json["num-query-groups"] = block.kv_heads;
  }
  if (block.qk_norm) json["qk-layernorm"] = true;
}

void add_positions(Json& json, const Problem& problem) {
  const ModelSpec& model = problem.model;
  const bool rotary = model.positions == Positions::rotary;
  json["position-embedding-type"] = rotary ? "rope" : "learned_absolute";
  json["max-position-embeddings"] = std::max(model.max_positions, problem.workload.seq);
  if (!rotary) return;
  json["rotary-base"] = std::llround(model.rope_theta);
  if (!model.rope_scaling || model.rope_scaling->type != kLlama3) return;
  json["use-rope-scaling"] = true;
  json["rope-scaling-factor"] = model.rope_scaling->factor;
}

void add_layers(Json& json, const BlockSpec& block) {
  json["normalization"] = block.norm == NormKind::rms_norm ? "RMSNorm" : "LayerNorm";
  if (block.mlp == MlpKind::gated) json["swiglu"] = true;
  if (block.activation == Activation::relu_squared) json["squared-relu"] = true;
  if (!block.mlp_bias) json["disable-bias-linear"] = true;
  if (block.qkv_bias && !block.mlp_bias) json["add-qkv-bias"] = true;
}

/// The bias is only taken with a sigmoid. Softmax goes over the chosen alone unless it is said to
/// come before the choice, as it must where one is chosen. Source: megatron/core/transformer/moe/
/// moe_utils.py, topk_softmax_with_capacity, and transformer_config.py @ core_v0.14.0.
void add_router(Json& json, const MoeSpec& moe) {
  if (scores_by_sigmoid(moe)) {
    json["moe-router-score-function"] = "sigmoid";
  } else if (!moe.weights_sum_to_one || moe.top_k == 1) {
    json["moe-router-pre-softmax"] = true;
  }
  if (moe.selection_bias) json["moe-router-enable-expert-bias"] = true;
  if (moe.weights_scale != 1.0) json["moe-router-topk-scaling-factor"] = moe.weights_scale;
  if (moe.groups == 0) return;
  json["moe-router-num-groups"] = moe.groups;
  json["moe-router-group-topk"] = moe.top_groups;
}

/// "([0]*1+[1]*26)": which layers have experts.
std::string expert_layers(const ModelSpec& model) {
  std::string text;
  for (const BlockRun& run : model.runs) {
    text += text.empty() ? "(" : "+";
    text += (run.block.moe ? "[1]*" : "[0]*") + std::to_string(run.count);
  }
  return text + ")";
}

void add_experts(Json& json, const ModelSpec& model, const MoeSpec& moe) {
  json["num-experts"] = moe.experts;
  json["moe-router-topk"] = moe.top_k;
  json["moe-ffn-hidden-size"] = moe.ffn;
  json["moe-layer-freq"] = expert_layers(model);
  if (moe.shared_ffn > 0) json["moe-shared-expert-intermediate-size"] = moe.shared_ffn;
  add_router(json, moe);
}

}  // namespace

Json model_arguments(const Problem& problem) {
  const ModelSpec& model = problem.model;
  const BlockSpec& block = model.block(0);
  const BlockSpec* const dense = find_block(model, false);
  const BlockSpec* const sparse = find_block(model, true);
  Json json{{"num-layers", model.layers()}, {"hidden-size", model.hidden}};
  json["ffn-hidden-size"] = dense != nullptr ? dense->ffn : sparse->moe->ffn;
  add_attention(json, model, block);
  add_positions(json, problem);
  add_layers(json, block);
  json["norm-epsilon"] = model.norm_eps;
  if (model.init_std != ModelSpec{}.init_std) json["init-method-std"] = model.init_std;
  if (sparse != nullptr) add_experts(json, model, *sparse->moe);
  if (!model.tied_embeddings) json["untie-embeddings-and-output-weights"] = true;
  json["make-vocab-size-divisible-by"] = 128;
  json["hidden-dropout"] = problem.workload.hidden_dropout;
  json["attention-dropout"] = problem.workload.attention_dropout;
  return json;
}

}  // namespace planwright::targets::megatron
