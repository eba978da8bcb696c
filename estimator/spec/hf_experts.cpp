#include <algorithm>
#include <string>
#include <vector>

#include "estimator/spec/hf_parts.h"

namespace planwright::hf {
namespace {

const Keys kRouterIgnored{"attention_dropout", "rope_scaling",         "output_router_logits",
                          "norm_topk_prob",    "router_aux_loss_coef", "router_jitter_noise",
                          "moe_jitter_eps",    "aux_loss_alpha",       "seq_aux"};
const Spellings kTopK{"num_experts_per_tok", "experts_per_token"};

/// The block's MLP becomes experts.
void become_experts(BlockSpec& block, const MoeSpec& moe) {
  block.moe = moe;
  block.ffn = 0;
  block.mlp_bias = false;
}

/// `count` and `top_k` of them, of width `ffn`.
MoeSpec experts_of(const HfReader& config, const Spellings& count, const Spellings& top_k,
                   std::int64_t ffn) {
  MoeSpec moe{.experts = config.size(count), .top_k = config.size(top_k), .ffn = ffn};
  if (moe.top_k > moe.experts) {
    config.refuse(config.spelled(top_k),
                  "must be at most the " + std::to_string(moe.experts) + " experts there are",
                  std::to_string(moe.experts));
  }
  return moe;
}

/// How the modelling files of transformers weigh what they chose: configurations of Qwen's say it,
/// and by default they do not divide by the sum.
void set_weights_sum(const HfReader& config, MoeSpec& moe, bool usual) {
  moe.weights_sum_to_one = config.flag("norm_topk_prob", usual);
}

ModelSpec mixtral(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config);
  BlockSpec& block = block_of(model);
  block.sliding_window = config.size_or({"sliding_window"}, 0);
  become_experts(block, experts_of(config, {"num_local_experts"}, kTopK, block.ffn));
  return model;
}

/// Layers that are not among mlp_only_layers, and are multiples of decoder_sparse_step counted from
/// one, have experts.
std::vector<bool> qwen_sparse_layers(const HfReader& config, std::int64_t layers) {
  std::vector<std::int64_t> dense;
  if (const Json* json = config.find("mlp_only_layers")) {
    decode(*json, config.at("mlp_only_layers"), dense);
  }
  const std::int64_t step = config.size_or({"decoder_sparse_step"}, 1);
  std::vector<bool> sparse(static_cast<std::size_t>(layers));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    sparse[static_cast<std::size_t>(layer)] = !listed && (layer + 1) % step == 0;
  }
  return sparse;
}

/// Qwen2-MoE and Qwen3-MoE, with the window of every layer or of none.
ModelSpec with_qwen_experts(const HfReader& config, ModelSpec model, const MoeSpec& moe) {
  const auto sparse = qwen_sparse_layers(config, model.layers());
  if (config.flag("use_sliding_window", false)) {
    config.refuse("use_sliding_window", "must be false: which layers have it is not said", "false");
  }
  for_each_layer(model, [&](std::int64_t layer, BlockSpec& block) {
    if (sparse[static_cast<std::size_t>(layer)]) become_experts(block, moe);
  });
  return model;
}

ModelSpec qwen2_moe(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config);
  block_of(model).qkv_bias = true;
  MoeSpec moe = experts_of(config, {"num_experts"}, kTopK, config.size({"moe_intermediate_size"}));
  moe.shared_ffn = config.size({"shared_expert_intermediate_size"});
  moe.shared_gate = true;
  set_weights_sum(config, moe, false);
  return with_qwen_experts(config, model, moe);
}

ModelSpec qwen3_moe(const HfReader& config) {
  require_kv_heads(config);
  if (!config.has("head_dim")) {
    config.refuse_missing("head_dim", " (Qwen3MoeConfig takes hidden_size / heads or 128)");
  }
  ModelSpec model = rotary_gated(config);
  BlockSpec& block = block_of(model);
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
  block.qk_norm = true;
  MoeSpec moe = experts_of(config, {"num_experts"}, kTopK, config.size({"moe_intermediate_size"}));
  set_weights_sum(config, moe, false);
  return with_qwen_experts(config, model, moe);
}

LatentSpec latent_of(const HfReader& config) {
  if (config.size({"qk_rope_head_dim"}) % 2 != 0) {
    config.refuse("qk_rope_head_dim", "must be even: rotary positions turn it in pairs");
  }
  return {.kv_rank = config.size({"kv_lora_rank"}),
          .q_rank = config.size_or({"q_lora_rank"}, 0),
          .nope_dim = config.size({"qk_nope_head_dim"}),
          .rope_dim = config.size({"qk_rope_head_dim"}),
          .value_dim = config.size({"v_head_dim"})};
}

/// DeepseekV2Config and DeepseekV3Config: what they choose from, and what they make of it, where
/// the keys are silent. Without a method that groups them, experts are chosen from all.
void set_router(const HfReader& config, MoeSpec& moe, bool third) {
  const std::string method = config.text("topk_method", third ? "noaux_tc" : "greedy");
  moe.score = config.text("scoring_func", third ? "sigmoid" : "softmax") == "sigmoid"
                  ? RouterScore::sigmoid
                  : RouterScore::softmax;
  set_weights_sum(config, moe, third);
  moe.weights_scale = config.number("routed_scaling_factor", third ? 2.5 : 1.0);
  const std::int64_t groups = config.count_or("n_group", third ? 8 : 0);
  if (groups <= 1 || method == "greedy") return;
  moe.groups = groups;
  moe.top_groups = config.count_or("topk_group", third ? 4 : 0);
}

/// Heads share one latent vector, so num_key_value_heads is as many as heads, whatever it says.
ModelSpec deepseek(const HfReader& config, bool third) {
  ModelSpec model;
  model.hidden = config.size(kHidden);
  model.vocab = config.size({"vocab_size"});
  model.max_positions = config.size(kPositions);
  model.rope_theta = rope_theta(config);
  model.norm_eps = config.number("rms_norm_eps", 1e-6);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  BlockSpec block;
  const LatentSpec latent = latent_of(config);
  block.latent = latent;
  block.heads = block.kv_heads = config.size(kHeads);
  block.head_dim = latent.nope_dim + latent.rope_dim;
  block.rotary_dim = latent.rope_dim;
  block.ffn = config.size({"intermediate_size"});
  block.mlp = MlpKind::gated;
  block.activation = activation_of(config, "hidden_act", Activation::silu);
  block.norm = NormKind::rms_norm;
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
  model.runs = {{layer_count(config), block}};
  if (config.find("n_routed_experts") == nullptr) return model;

  const std::int64_t ffn = config.size({"moe_intermediate_size"});
  MoeSpec moe = experts_of(config, {"n_routed_experts"}, kTopK, ffn);
  moe.shared_ffn =
      multiple(config, "n_shared_experts", config.count_or("n_shared_experts", 0), ffn);
  moe.selection_bias = third && config.text("topk_method", "noaux_tc") == "noaux_tc";
  set_router(config, moe, third);
  const std::int64_t dense = config.count_or("first_k_dense_replace", 0);
  if (dense > model.layers()) {
    config.refuse("first_k_dense_replace",
                  "must be at most the " + std::to_string(model.layers()) + " layers there are",
                  std::to_string(model.layers()));
  }
  const std::int64_t every = config.size_or({"moe_layer_freq"}, 1);
  for_each_layer(model, [&](std::int64_t layer, BlockSpec& each) {
    if (layer >= dense && layer % every == 0) become_experts(each, moe);
  });
  return model;
}
ModelSpec deepseek_v2(const HfReader& config) { return deepseek(config, false); }
ModelSpec deepseek_v3(const HfReader& config) { return deepseek(config, true); }

/// DbrxAttentionConfig and DbrxFFNConfig stand in objects of their own.
ModelSpec dbrx(const HfReader& config) {
  ModelSpec model;
  model.hidden = config.size({"d_model"});
  model.vocab = config.size({"vocab_size"});
  model.max_positions = config.size({"max_seq_len"});
  model.norm_eps = 1e-5;
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  const HfReader attention = config.inner("attn_config");
  attention.require_keys({"kv_n_heads", "clip_qkv", "rope_theta", "attn_pdrop", "model_type"},
                         "the attention of dbrx models");
  const HfReader ffn = config.inner("ffn_config");
  ffn.require_keys({"ffn_hidden_size", "moe_num_experts", "moe_top_k", "ffn_act_fn",
                    "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights",
                    "uniform_expert_assignment", "model_type"},
                   "the experts of dbrx models");
  model.rope_theta = rope_theta(attention);
  BlockSpec block;
  block.heads = config.size({"n_heads"});
  require_divides(config, "n_heads", block.heads, "d_model", model.hidden);
  block.head_dim = model.hidden / block.heads;
  block.kv_heads = attention.size({"kv_n_heads"});
  require_divides(attention, "kv_n_heads", block.kv_heads, "n_heads", block.heads);
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::layer_norm_without_bias;
  become_experts(
      block, experts_of(ffn, {"moe_num_experts"}, {"moe_top_k"}, ffn.size({"ffn_hidden_size"})));
  model.runs = {{layer_count(config, {"n_layers"}), block}};
  return model;
}

/// GptOssAttention has a sink per head; router and experts have biases.
ModelSpec gpt_oss(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config, {.head_dim = 64});
  BlockSpec& block = block_of(model);
  block.qkv_bias = block.out_bias = config.flag("attention_bias", true);
  block.sinks = true;
  MoeSpec moe = experts_of(config, {"num_local_experts", "num_experts"}, kTopK, block.ffn);
  moe.router_bias = moe.expert_bias = true;
  become_experts(block, moe);
  set_windows_between(config, model, 2);
  return model;
}

/// The copies on Hugging Face spell the experts' number in two ways; the output matrix is the
/// embedding's, as in the first release.
ModelSpec grok(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config, {.tied = true, .activation = Activation::gelu});
  BlockSpec& block = block_of(model);
  block.norm_place = NormPlace::both;
  block.logit_cap = config.find("max_attn_value") != nullptr;
  become_experts(block, experts_of(config, {"num_local_experts", "num_experts"}, kTopK, block.ffn));
  return model;
}

/// Llama4TextConfig: moe_layers lists the layers with experts, or every
/// interleave_moe_layer_step-th has them.
std::vector<bool> llama4_sparse_layers(const HfReader& config, std::int64_t layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers));
  if (const Json* json = config.find("moe_layers")) {
    std::vector<std::int64_t> listed;
    decode(*json, config.at("moe_layers"), listed);
    for (const std::int64_t layer : listed) {
      if (layer < 0 || layer >= layers) config.refuse("moe_layers", "holds a layer that is none");
      sparse[static_cast<std::size_t>(layer)] = true;
    }
    return sparse;
  }
  const std::int64_t step = config.size_or({"interleave_moe_layer_step"}, 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    sparse[static_cast<std::size_t>(layer)] = (layer + 1) % step == 0;
  }
  return sparse;
}

/// Layers with rotary positions, all but every fourth, look at chunks of the sequence: never more
/// keys than a chunk, so a window of that size is what they hold at most.
std::vector<bool> llama4_chunked_layers(const HfReader& config, std::int64_t layers) {
  if (const auto listed = listed_windows(config, layers, "chunked_attention")) return *listed;
  std::vector<std::int64_t> rotary(static_cast<std::size_t>(layers));
  const std::int64_t interval = config.size_or({"no_rope_layer_interval"}, 4);
  for (std::size_t layer = 0; layer < rotary.size(); ++layer) {
    rotary[layer] = (static_cast<std::int64_t>(layer) + 1) % interval != 0 ? 1 : 0;
  }
  const Json* json = config.find("no_rope_layers");
  if (json != nullptr && !json->empty()) {
    rotary = *config.each_layer<std::int64_t>("no_rope_layers", layers);  // 1: it has them
  }
  std::vector<bool> chunked;
  for (const std::int64_t each : rotary) chunked.push_back(each != 0);
  return chunked;
}

ModelSpec llama4_text(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config);
  BlockSpec& block = block_of(model);
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
  block.qk_norm = config.flag("use_qk_norm", true);
  block.qk_norm_kind = QkNorm::plain;
  MoeSpec moe = experts_of(config, {"num_local_experts"}, kTopK, block.ffn);
  moe.score = RouterScore::sigmoid;
  moe.shared_ffn = block.ffn;  // Llama4TextMoe has one of an expert's width; no key says so
  const std::int64_t dense = config.size({"intermediate_size_mlp"});
  const auto sparse = llama4_sparse_layers(config, model.layers());
  const auto chunked = llama4_chunked_layers(config, model.layers());
  const std::int64_t chunk = config.size_or({"attention_chunk_size"}, 8192);
  for_each_layer(model, [&](std::int64_t layer, BlockSpec& each) {
    const auto at = static_cast<std::size_t>(layer);
    each.sliding_window = chunked[at] ? chunk : 0;
    each.ffn = dense;
    if (sparse[at]) become_experts(each, moe);
  });
  return model;
}

}  // namespace

std::vector<HfFamily> expert_families() {
  const Keys& keys = rotary_keys();
  const HfFixedKey whole{"partial_rotary_factor", "1.0", "rotary positions turn all of it"};
  const HfFixedKey no_bias{"attention_bias", "false", "its attention has no biases"};
  const Keys qwen{"num_experts",     "num_experts_per_tok", "moe_intermediate_size",
                  "mlp_only_layers", "decoder_sparse_step", "use_sliding_window",
                  "norm_topk_prob"};
  const Keys qwen_ignored{"sliding_window", "max_window_layers"};
  const Keys deepseek{"hidden_size",
                      "num_attention_heads",
                      "num_hidden_layers",
                      "max_position_embeddings",
                      "max_sequence_length",
                      "intermediate_size",
                      "vocab_size",
                      "hidden_act",
                      "rms_norm_eps",
                      "rope_theta",
                      "rope_parameters",
                      "tie_word_embeddings",
                      "attention_bias",
                      "kv_lora_rank",
                      "q_lora_rank",
                      "qk_nope_head_dim",
                      "qk_rope_head_dim",
                      "v_head_dim",
                      "n_routed_experts",
                      "n_shared_experts",
                      "num_experts_per_tok",
                      "moe_intermediate_size",
                      "first_k_dense_replace",
                      "moe_layer_freq",
                      "topk_method",
                      "norm_topk_prob",
                      "scoring_func",
                      "n_group",
                      "topk_group",
                      "routed_scaling_factor"};
  // num_nextn_predict_layers: modules that predict further tokens are in the checkpoint, not in the
  // model that is trained or served.
  const Keys deepseek_ignored{
      "num_key_value_heads",      "auto_map",       "ep_size",     "head_dim",
      "num_nextn_predict_layers", "pretraining_tp", "qk_head_dim", "rope_interleave",
      "aux_loss_alpha",           "seq_aux"};
  return {
      {"mixtral",
       {"MixtralForCausalLM"},
       with(keys, {"num_local_experts", "num_experts_per_tok", "sliding_window"}),
       {whole, no_bias},
       kRouterIgnored,
       mixtral},
      {"qwen2_moe",
       {"Qwen2MoeForCausalLM"},
       with(with(keys, qwen), {"shared_expert_intermediate_size"}),
       {whole},
       with(kRouterIgnored, qwen_ignored),
       qwen2_moe},
      {"qwen3_moe",
       {"Qwen3MoeForCausalLM"},
       with(with(keys, qwen), {"attention_bias"}),
       {whole,
        {"qkv_bias", "false", "queries, keys and values have no biases"},
        {"use_qk_norm", "true", "queries and keys are normed"},
        {"shared_expert_intermediate_size", "0", "no expert is shared"}},
       with(kRouterIgnored, qwen_ignored),
       qwen3_moe},
      {"deepseek_v2",
       {"DeepseekV2ForCausalLM"},
       deepseek,
       {},
       with(kRouterIgnored, deepseek_ignored),
       deepseek_v2},
      {"deepseek_v3",
       {"DeepseekV3ForCausalLM"},
       deepseek,
       {},
       with(kRouterIgnored, deepseek_ignored),
       deepseek_v3},
      {"kimi_k2",
       {"DeepseekV3ForCausalLM"},
       deepseek,
       {},
       with(kRouterIgnored, deepseek_ignored),
       deepseek_v3},
      {"dbrx",
       {"DbrxForCausalLM"},
       {"d_model", "n_heads", "n_layers", "max_seq_len", "vocab_size", "attn_config", "ffn_config",
        "tie_word_embeddings"},
       {},
       with(kRouterIgnored, {"auto_map", "emb_pdrop", "resid_pdrop", "use_cache"}),
       dbrx},
      {"gpt_oss",
       {"GptOssForCausalLM"},
       with(keys, {"attention_bias", "num_local_experts", "num_experts", "num_experts_per_tok",
                   "experts_per_token", "sliding_window", "layer_types"}),
       {whole},
       with(kRouterIgnored, {"initial_context_length", "swiglu_limit"}),
       gpt_oss},
      {"grok-1",
       {"Grok1ModelForCausalLM"},
       with(keys, {"num_local_experts", "num_experts", "num_experts_per_tok", "max_attn_value"}),
       {no_bias},
       with(kRouterIgnored, {"attn_output_multiplier", "auto_map", "embedding_multiplier_scale",
                             "output_multiplier_scale"}),
       grok},
      {"llama4_text",
       {"Llama4ForCausalLM"},
       with(keys,
            {"attention_bias", "use_qk_norm", "num_local_experts", "num_experts_per_tok",
             "intermediate_size_mlp", "moe_layers", "interleave_moe_layer_step", "layer_types",
             "no_rope_layers", "no_rope_layer_interval", "attention_chunk_size"}),
       {},
       with(kRouterIgnored,
            {"attn_scale", "attn_temperature_tuning", "floor_scale", "for_llm_compressor"}),
       llama4_text},
  };
}

}  // namespace planwright::hf
