#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/hf_parts.h"

namespace planwright::hf {
namespace {

const HfFixedKey kWholeRotation{"partial_rotary_factor", "1.0", "rotary positions turn all of it"};
const HfFixedKey kOneDimension{"use_mrope", "false", "positions have one dimension"};
const Keys kRopeKeys{"rope_scaling", "attention_dropout"};

void set_attention_bias(const HfReader& config, BlockSpec& block) {
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
}

ModelSpec llama(const HfReader& config) {
  ModelSpec model = rotary_gated(config);
  set_attention_bias(config, block_of(model));
  block_of(model).mlp_bias = config.flag("mlp_bias", false);
  return model;
}

ModelSpec mistral(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config);
  block_of(model).sliding_window = config.size_or({"sliding_window"}, 0);
  return model;
}

/// Qwen2Config, and Qwen3Config: with use_sliding_window the layers from max_window_layers on have
/// the window.
std::vector<bool> qwen_windows(const HfReader& config, std::int64_t layers) {
  const auto listed = listed_windows(config, layers);
  if (!config.flag("use_sliding_window", false)) {
    if (listed && std::count(listed->begin(), listed->end(), true) > 0) {
      config.refuse("layer_types", "holds sliding_attention, but use_sliding_window is off",
                    "full_attention");
    }
    return std::vector<bool>(static_cast<std::size_t>(layers), false);
  }
  if (listed) return *listed;
  if (config.find("max_window_layers") == nullptr) {
    config.refuse_missing("max_window_layers", " beside use_sliding_window");
  }
  const std::int64_t first = config.count_or("max_window_layers", 0);
  std::vector<bool> windows(static_cast<std::size_t>(layers), true);
  std::fill_n(windows.begin(), std::min(first, layers), false);
  return windows;
}

ModelSpec qwen2(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config);
  block_of(model).qkv_bias = true;  // Qwen2Attention has them always; no key says so
  set_windows(config, model, qwen_windows(config, model.layers()));
  return model;
}

ModelSpec qwen3(const HfReader& config) {
  require_kv_heads(config);
  if (!config.has("head_dim")) {
    config.refuse_missing("head_dim", " (Qwen3Config takes 128 whatever the heads)");
  }
  ModelSpec model = rotary_gated(config);
  set_attention_bias(config, block_of(model));
  block_of(model).qk_norm = true;  // Qwen3Attention has them always
  set_windows(config, model, qwen_windows(config, model.layers()));
  return model;
}

/// GemmaMLP takes hidden_activation; the old hidden_act is not what was trained, and is overruled.
ModelSpec gemma(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config, {.tied = true, .head_dim = 256});
  set_attention_bias(config, block_of(model));
  block_of(model).activation = activation_of(config, "hidden_activation", Activation::gelu_tanh);
  return model;
}

ModelSpec gemma2(const HfReader& config) {
  ModelSpec model = gemma(config);
  block_of(model).norm_place = NormPlace::both;
  block_of(model).logit_cap = config.find("attn_logit_softcapping") != nullptr;
  model.logit_cap = config.find("final_logit_softcapping") != nullptr;
  set_windows_between(config, model, 2);
  return model;
}

/// Phi3Attention and Phi3MLP fuse their projections, without biases.
ModelSpec phi3(const HfReader& config) {
  ModelSpec model = rotary_gated(config);
  BlockSpec& block = block_of(model);
  set_attention_bias(config, block);
  block.rotary_dim = rotary_dim(config, "partial_rotary_factor", 1.0, block.head_dim);
  block.sliding_window = config.size_or({"sliding_window"}, 0);
  return model;
}

ModelSpec olmo(const HfReader& config) {
  ModelSpec model = rotary_gated(config, {.norm = NormKind::layer_norm_without_weight});
  set_attention_bias(config, block_of(model));
  return model;
}

ModelSpec olmo2(const HfReader& config) {
  ModelSpec model = rotary_gated(config);
  BlockSpec& block = block_of(model);
  set_attention_bias(config, block);
  block.norm_place = NormPlace::output;
  block.qk_norm = true;
  block.qk_norm_kind = QkNorm::width_rms;
  return model;
}

ModelSpec cohere(const HfReader& config) {
  ModelSpec model = rotary_gated(
      config, {.norm = NormKind::layer_norm_without_bias, .eps = {"layer_norm_eps"}, .tied = true});
  BlockSpec& block = block_of(model);
  set_attention_bias(config, block);
  block.residual = Residual::parallel_shared;
  block.qk_norm = config.flag("use_qk_norm", false);
  block.qk_norm_kind = QkNorm::each_head_layer;
  return model;
}

/// Every sliding_window_pattern-th layer sees everything, the others a window.
ModelSpec cohere2(const HfReader& config) {
  ModelSpec model = cohere(config);
  const std::int64_t pattern = config.size_or({"sliding_window_pattern"}, 4);
  set_windows_between(config, model, pattern);
  return model;
}

/// StableLmConfig: LayerNorms with biases; with use_parallel_residual one norm is shared.
ModelSpec stablelm(const HfReader& config) {
  ModelSpec model = rotary_gated(config, {.norm = NormKind::layer_norm, .eps = {"layer_norm_eps"}});
  BlockSpec& block = block_of(model);
  block.qkv_bias = config.flag("use_qkv_bias", false);
  block.rotary_dim = rotary_dim(config, "partial_rotary_factor", 0.25, block.head_dim);
  if (config.flag("use_parallel_residual", false)) block.residual = Residual::parallel_shared;
  block.qk_norm = config.flag("qk_layernorm", false);
  block.qk_norm_kind = QkNorm::each_head_layer;
  return model;
}

/// BaichuanForCausalLM: one fused W_pack for as many keys as queries. The 13B model has ALiBi, and
/// says how long a text may be under another key.
ModelSpec baichuan(const HfReader& config) {
  const bool rotary = config.find("max_position_embeddings") != nullptr;
  ModelSpec model =
      outline(config, {.positions = {rotary ? "max_position_embeddings" : "model_max_length"},
                       .eps = "rms_norm_eps",
                       .usual_eps = 1e-6});
  model.positions = rotary ? Positions::rotary : Positions::alibi;
  BlockSpec& block = block_of(model);
  block.ffn = config.size({"intermediate_size"});
  block.mlp = MlpKind::gated;
  block.activation = activation_of(config, "hidden_act", Activation::silu);
  block.norm = NormKind::rms_norm;
  return model;
}

/// GLMTransformer of ChatGLM2 and 3: swiglu, and rotary positions on half of each head.
ModelSpec chatglm(const HfReader& config) {
  ModelSpec model;
  model.hidden = config.size(kHidden);
  model.vocab = config.size({"padded_vocab_size", "vocab_size"});
  model.max_positions = config.size({"seq_length"});
  model.norm_eps = config.number("layernorm_epsilon", 1e-5);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.final_norm = config.flag("post_layer_norm", true);
  const bool bias = config.flag("add_bias_linear", false);
  BlockSpec block;
  block.heads = config.size(kHeads);
  block.head_dim = config.size({"kv_channels"});
  block.kv_heads = config.flag("multi_query_attention", false)
                       ? config.size({"multi_query_group_num"})
                       : block.heads;
  require_divides(config, "multi_query_group_num", block.kv_heads, "num_attention_heads",
                  block.heads);
  block.rotary_dim = block.head_dim / 2;
  block.ffn = config.size({"ffn_hidden_size"});
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = config.flag("rmsnorm", true) ? NormKind::rms_norm : NormKind::layer_norm;
  block.qkv_bias = bias || config.flag("add_qkv_bias", false);
  block.out_bias = block.mlp_bias = bias;
  model.runs = {{layer_count(config, {"num_layers"}), block}};
  return model;
}

/// QWenLMHeadModel: intermediate_size counts the gate and the up matrix together, and query, key
/// and value have biases whatever no_bias says.
ModelSpec qwen(const HfReader& config) {
  ModelSpec model;
  model.hidden = config.size(kHidden);
  model.vocab = config.size({"vocab_size"});
  model.max_positions = config.size({"seq_length"});
  model.rope_theta = config.number("rotary_emb_base", 10000.0);
  model.norm_eps = config.number("layer_norm_epsilon", 1e-6);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  BlockSpec block;
  block.heads = block.kv_heads = config.size(kHeads);
  block.head_dim = config.size({"kv_channels"});
  const std::int64_t both = config.size({"intermediate_size"});
  if (both % 2 != 0) config.refuse("intermediate_size", "must be even: two matrices share it");
  block.ffn = both / 2;
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  block.qkv_bias = true;
  block.out_bias = block.mlp_bias = !config.flag("no_bias", true);
  block.rotary_dim = rotary_dim(config, "rotary_pct", 1.0, block.head_dim);
  model.runs = {{layer_count(config), block}};
  return model;
}

/// InternLM2's fused wqkv; one key speaks for all biases of attention.
ModelSpec internlm2(const HfReader& config) {
  ModelSpec model = rotary_gated(config);
  block_of(model).qkv_bias = block_of(model).out_bias = config.flag("bias", false);
  return model;
}

/// SmolLM3: every no_rope_layer_interval-th layer has no positions, which changes no size.
ModelSpec smollm3(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config, {.tied = true});
  set_attention_bias(config, block_of(model));
  block_of(model).mlp_bias = config.flag("mlp_bias", false);
  set_windows(config, model, qwen_windows(config, model.layers()));
  model.unsized = "no_rope_layer_interval = 4";  // where no key says so
  return model;
}

/// Glm and Glm4 differ in norms: the second has four in a block.
ModelSpec glm(const HfReader& config) {
  require_kv_heads(config);
  ModelSpec model = rotary_gated(config, {.head_dim = 128});
  BlockSpec& block = block_of(model);
  block.qkv_bias = config.flag("attention_bias", false);
  block.rotary_dim = rotary_dim(config, "partial_rotary_factor", 0.5, block.head_dim);
  return model;
}
ModelSpec glm4(const HfReader& config) {
  ModelSpec model = glm(config);
  block_of(model).norm_place = NormPlace::both;
  return model;
}

}  // namespace

std::vector<HfFamily> rotary_families() {
  const Keys& keys = rotary_keys();
  const Keys windows{"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"};
  const HfFixedKey no_bias{"attention_bias", "false", "its attention has no biases"};
  const HfFixedKey no_mlp_bias{"mlp_bias", "false", "its MLP has no biases"};
  const HfFixedKey plain_residual{"apply_residual_connection_post_layernorm", "false",
                                  "the residual goes past the norms"};
  const HfFixedKey silu{"hidden_act", "\"silu\"", "its MLP is gated by SiLU"};
  const Keys capped{"attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"};
  return {
      {"llama",
       {"LlamaForCausalLM"},
       with(keys, {"attention_bias", "mlp_bias"}),
       {kWholeRotation},
       with(kRopeKeys, {"pretraining_tp", "rope_interleaved", "is_llama_config"}),
       llama},
      {"mistral",
       {"MistralForCausalLM"},
       with(keys, {"sliding_window"}),
       {kWholeRotation, no_bias, no_mlp_bias},
       kRopeKeys,
       mistral},
      {"qwen2",
       {"Qwen2ForCausalLM"},
       with(keys, windows),
       {kWholeRotation, kOneDimension},
       kRopeKeys,
       qwen2},
      {"qwen3",
       {"Qwen3ForCausalLM"},
       with(with(keys, windows), {"attention_bias"}),
       {kWholeRotation, kOneDimension},
       kRopeKeys,
       qwen3},
      {"gemma",
       {"GemmaForCausalLM"},
       with(keys, {"attention_bias", "hidden_activation"}),
       {kWholeRotation},
       kRopeKeys,
       gemma},
      {"gemma2",
       {"Gemma2ForCausalLM"},
       with(with(keys, {"attention_bias", "hidden_activation", "sliding_window", "layer_types"}),
            capped),
       {kWholeRotation},
       with(kRopeKeys, {"cache_implementation"}),
       gemma2},
      {"phi3",
       {"Phi3ForCausalLM"},
       with(keys, {"attention_bias", "partial_rotary_factor", "sliding_window"}),
       {},
       with(kRopeKeys,
            {"original_max_position_embeddings", "embd_pdrop", "resid_pdrop", "auto_map"}),
       phi3},
      {"olmo",
       {"OlmoForCausalLM"},
       with(keys, {"attention_bias"}),
       {kWholeRotation},
       with(kRopeKeys, {"clip_qkv"}),
       olmo},
      {"olmo2",
       {"Olmo2ForCausalLM"},
       with(keys, {"attention_bias"}),
       {kWholeRotation},
       kRopeKeys,
       olmo2},
      {"cohere",
       {"CohereForCausalLM"},
       with(keys, {"attention_bias", "layer_norm_eps", "use_qk_norm"}),
       {kWholeRotation},
       with(kRopeKeys, {"logit_scale", "model_max_length"}),
       cohere},
      {"cohere2",
       {"Cohere2ForCausalLM"},
       with(keys, {"attention_bias", "layer_norm_eps", "use_qk_norm", "sliding_window",
                   "sliding_window_pattern", "layer_types"}),
       {kWholeRotation},
       with(kRopeKeys,
            {"logit_scale", "model_max_length", "cache_implementation", "rotary_pct",
             "order_of_interleaved_layers", "position_embedding_type", "use_embedding_sharing",
             "use_gated_activation", "use_parallel_block", "use_parallel_embedding"}),
       cohere2},
      {"stablelm",
       {"StableLmForCausalLM"},
       with(keys, {"use_qkv_bias", "layer_norm_eps", "partial_rotary_factor",
                   "use_parallel_residual", "qk_layernorm"}),
       {},
       with(kRopeKeys, {"hidden_dropout", "auto_map"}),
       stablelm},
      {"baichuan",
       {"BaichuanForCausalLM", "BaiChuanForCausalLM"},
       {"hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings",
        "model_max_length", "intermediate_size", "vocab_size", "hidden_act", "rms_norm_eps",
        "tie_word_embeddings"},
       {},
       {"auto_map", "z_loss_weight", "gradient_checkpointing"},
       baichuan},
      {"chatglm",
       {"ChatGLMModel", "ChatGLMForConditionalGeneration"},
       {"hidden_size", "num_attention_heads", "num_layers", "seq_length", "ffn_hidden_size",
        "padded_vocab_size", "vocab_size", "kv_channels", "multi_query_attention",
        "multi_query_group_num", "layernorm_epsilon", "post_layer_norm", "rmsnorm",
        "add_bias_linear", "add_qkv_bias", "tie_word_embeddings"},
       {plain_residual, {"pre_seq_len", "null", "there is no prefix encoder"}},
       {"auto_map", "apply_query_key_layer_scaling", "attention_dropout",
        "attention_softmax_in_fp32", "bias_dropout_fusion", "fp32_residual_connection",
        "hidden_dropout", "original_rope", "rope_ratio", "prefix_projection", "quantization_bit",
        "attn_implementation", "classifier_dropout", "interleaved_qkv"},
       chatglm},
      {"qwen",
       {"QWenLMHeadModel"},
       {"hidden_size", "num_attention_heads", "num_hidden_layers", "seq_length",
        "intermediate_size", "vocab_size", "kv_channels", "layer_norm_epsilon", "no_bias",
        "rotary_emb_base", "rotary_pct", "tie_word_embeddings"},
       {},
       {"auto_map", "attn_dropout_prob", "emb_dropout_prob", "bf16", "fp16", "fp32",
        "max_position_embeddings", "scale_attn_weights", "use_dynamic_ntk", "use_flash_attn",
        "use_logn_attn", "onnx_safe", "softmax_in_fp32", "use_cache_kernel",
        "use_cache_quantization"},
       qwen},
      {"internlm2",
       {"InternLM2ForCausalLM"},
       with(keys, {"bias"}),
       {silu},
       with(kRopeKeys, {"auto_map", "attn_implementation", "pretraining_tp"}),
       internlm2},
      {"granite",
       {"GraniteForCausalLM"},
       with(keys, {"attention_bias", "mlp_bias"}),
       {kWholeRotation},
       with(kRopeKeys, {"attention_multiplier", "embedding_multiplier", "logits_scaling",
                        "residual_multiplier"}),
       llama},
      {"smollm3",
       {"SmolLM3ForCausalLM"},
       with(with(keys, windows), {"attention_bias", "mlp_bias"}),
       {kWholeRotation},
       with(kRopeKeys, {"no_rope_layers", "no_rope_layer_interval", "pretraining_tp"}),
       smollm3},
      {"glm",
       {"GlmForCausalLM"},
       with(keys, {"attention_bias", "partial_rotary_factor"}),
       {},
       kRopeKeys,
       glm},
      {"glm4",
       {"Glm4ForCausalLM"},
       with(keys, {"attention_bias", "partial_rotary_factor"}),
       {},
       kRopeKeys,
       glm4},
  };
}

}  // namespace planwright::hf
