#include <string>
#include <vector>

#include "estimator/spec/hf_parts.h"

namespace planwright::hf {
namespace {

// GPT2Config.attribute_map gives each of its own names a second one; GPT-J's and BigCode's are the
// same.
const Spellings kGptHidden{"n_embd", "hidden_size"};
const Spellings kGptHeads{"n_head", "num_attention_heads"};
const Spellings kGptLayers{"n_layer", "num_hidden_layers"};
const Spellings kGptPositions{"n_positions", "n_ctx", "max_position_embeddings"};
const Keys kGptKeys{"n_embd",
                    "n_head",
                    "n_layer",
                    "n_positions",
                    "n_ctx",
                    "n_inner",
                    "hidden_size",
                    "num_attention_heads",
                    "vocab_size",
                    "num_hidden_layers",
                    "activation_function",
                    "layer_norm_epsilon",
                    "max_position_embeddings",
                    "tie_word_embeddings"};
const Keys kGptIgnored{"attn_pdrop",
                       "embd_pdrop",
                       "resid_pdrop",
                       "summary_activation",
                       "summary_type",
                       "summary_first_dropout",
                       "summary_use_proj",
                       "summary_proj_to_labels",
                       "gradient_checkpointing",
                       "n_special",
                       "predict_special_tokens",
                       "n_vocab"};

const Keys kFalconKeys{"hidden_size",
                       "num_attention_heads",
                       "n_head",
                       "num_hidden_layers",
                       "n_layer",
                       "num_kv_heads",
                       "n_head_kv",
                       "multi_query",
                       "new_decoder_architecture",
                       "parallel_attn",
                       "num_ln_in_parallel_attn",
                       "bias",
                       "alibi",
                       "ffn_hidden_size",
                       "activation",
                       "vocab_size",
                       "layer_norm_epsilon",
                       "max_position_embeddings",
                       "rope_theta",
                       "rope_parameters",
                       "tie_word_embeddings"};
const Keys kFalconIgnored{"attention_dropout", "hidden_dropout", "rope_scaling", "auto_map"};

void set_biases(BlockSpec& block, bool bias) {
  block.qkv_bias = block.out_bias = block.mlp_bias = bias;
}

ModelSpec gpt2(const HfReader& config) {
  ModelSpec model = outline(config, {.hidden = kGptHidden,
                                     .heads = kGptHeads,
                                     .layers = kGptLayers,
                                     .positions = kGptPositions,
                                     .eps = "layer_norm_epsilon",
                                     .tied = true});
  model.positions = Positions::learned;
  BlockSpec& block = block_of(model);
  block.ffn = config.size_or({"n_inner"}, 4 * model.hidden);
  block.activation = activation_of(config, "activation_function", Activation::gelu_tanh);
  set_biases(block, true);
  return model;
}

/// GPTBigCode is GPT-2 with one head of keys and values.
ModelSpec gpt_bigcode(const HfReader& config) {
  ModelSpec model = gpt2(config);
  if (config.flag("multi_query", true)) block_of(model).kv_heads = 1;
  return model;
}

/// GPTJAttention has no biases; its MLP and its head have.
ModelSpec gptj(const HfReader& config) {
  ModelSpec model = gpt2(config);
  model.positions = Positions::rotary;
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.head_bias = !model.tied_embeddings;
  BlockSpec& block = block_of(model);
  block.qkv_bias = block.out_bias = false;
  block.residual = Residual::parallel_shared;
  const std::int64_t turned = config.size_or({"rotary_dim"}, block.head_dim);
  block.rotary_dim = turned == block.head_dim ? 0 : turned;
  return model;
}

ModelSpec gpt_neox(const HfReader& config) {
  ModelSpec model = outline(config, {});
  model.rope_theta =
      rope_theta(config, config.has("rope_theta") ? "rope_theta" : "rotary_emb_base");
  BlockSpec& block = block_of(model);
  block.ffn = config.size({"intermediate_size"});
  block.activation = activation_of(config, "hidden_act", Activation::gelu);
  block.rotary_dim =
      rotary_dim(config, config.has("rotary_pct") ? "rotary_pct" : "partial_rotary_factor", 0.25,
                 block.head_dim);
  block.qkv_bias = block.out_bias = config.flag("attention_bias", true);
  block.mlp_bias = true;
  if (config.flag("use_parallel_residual", true)) block.residual = Residual::parallel;
  return model;
}

ModelSpec bloom(const HfReader& config) {
  ModelSpec model = outline(config, {.hidden = {"hidden_size", "n_embed", "n_embd"},
                                     .heads = kGptHeads,
                                     .layers = kGptLayers,
                                     .positions = {"seq_length"},
                                     .usual_positions = 2048,
                                     .eps = "layer_norm_epsilon",
                                     .tied = true});
  model.positions = Positions::alibi;
  model.embedding_norm = true;
  block_of(model).ffn = 4 * model.hidden;
  set_biases(block_of(model), true);
  return model;
}

/// FalconAttention: as many keys as the architecture says, whose old and new forms read other keys.
std::int64_t falcon_kv_heads(const HfReader& config, std::int64_t heads) {
  if (config.flag("new_decoder_architecture", false)) {
    const std::int64_t kv_heads = config.size_or({"num_kv_heads", "n_head_kv"}, heads);
    require_divides(config, config.spelled({"num_kv_heads", "n_head_kv"}), kv_heads,
                    "num_attention_heads", heads);
    return kv_heads;
  }
  return config.flag("multi_query", true) ? 1 : heads;
}

Residual falcon_residual(const HfReader& config) {
  const bool fresh = config.flag("new_decoder_architecture", false);
  if (!fresh && !config.flag("parallel_attn", true)) return Residual::sequential;
  const std::int64_t norms = config.size_or({"num_ln_in_parallel_attn"}, fresh ? 2 : 1);
  return fresh && norms == 2 ? Residual::parallel : Residual::parallel_shared;
}

ModelSpec falcon(const HfReader& config) {
  ModelSpec model = outline(config, {.heads = {"num_attention_heads", "n_head"},
                                     .layers = {"num_hidden_layers", "n_layer"},
                                     .positions = {"max_position_embeddings"},
                                     .usual_positions = 2048,
                                     .eps = "layer_norm_epsilon",
                                     .tied = true});
  model.positions = config.flag("alibi", false) ? Positions::alibi : Positions::rotary;
  model.rope_theta = rope_theta(config);
  BlockSpec& block = block_of(model);
  block.kv_heads = falcon_kv_heads(config, block.heads);
  block.ffn = config.size_or({"ffn_hidden_size"}, 4 * model.hidden);
  block.activation = activation_of(config, "activation", Activation::gelu);
  block.residual = falcon_residual(config);
  set_biases(block, config.flag("bias", false));
  return model;
}

/// The first uploads of falcon-40b: the new architecture under other names.
ModelSpec refined_web(const HfReader& config) {
  ModelSpec model = falcon(config);
  BlockSpec& block = block_of(model);
  block.kv_heads = config.size({"n_head_kv", "num_kv_heads"});
  require_divides(config, "n_head_kv", block.kv_heads, "n_head", block.heads);
  block.residual = Residual::parallel;
  return model;
}

/// Whether it has ALiBi.
bool read_mpt_attention(const HfReader& config, BlockSpec& block) {
  const HfReader attention = config.inner("attn_config");
  attention.require_keys(
      {"alibi", "alibi_bias_max", "attn_impl", "attn_pdrop", "attn_type", "attn_uses_sequence_id",
       "clip_qkv", "prefix_lm", "qk_ln", "softmax_scale", "kv_n_heads", "model_type"},
      "the attention of mpt models");
  if (attention.flag("qk_ln", false)) attention.refuse("qk_ln", "must be false", "false");
  attention.require_word(
      "attn_type", {"multihead_attention", "multiquery_attention", "grouped_query_attention"});
  const std::string type = attention.text("attn_type", "multihead_attention");
  if (type == "multiquery_attention") block.kv_heads = 1;
  if (type == "grouped_query_attention") block.kv_heads = attention.size({"kv_n_heads"});
  require_divides(attention, "kv_n_heads", block.kv_heads, "n_heads", block.heads);
  return attention.flag("alibi", true);
}

/// MPTForCausalLM: no biases anywhere, norms without theirs, too; positions in a table only where
/// ALiBi is off.
ModelSpec mpt(const HfReader& config) {
  ModelSpec model = outline(config, {.hidden = {"d_model"},
                                     .heads = {"n_heads"},
                                     .layers = {"n_layers"},
                                     .positions = {"max_seq_len"},
                                     .tied = true});
  BlockSpec& block = block_of(model);
  const bool alibi = !config.has("attn_config") || read_mpt_attention(config, block);
  model.positions = alibi                                  ? Positions::alibi
                    : config.flag("learned_pos_emb", true) ? Positions::learned
                                                           : Positions::none;
  block.ffn =
      multiple(config, "expansion_ratio", config.size_or({"expansion_ratio"}, 4), model.hidden);
  block.activation = Activation::gelu;
  block.norm = NormKind::layer_norm_without_bias;
  return model;
}

/// OPTLearnedPositionalEmbedding has two rows more than positions. The 350M model norms after each
/// half, has no final norm, and narrower embeddings.
ModelSpec opt(const HfReader& config) {
  ModelSpec model = outline(config, {.positions = {"max_position_embeddings"}, .tied = true});
  model.positions = Positions::learned;
  model.position_offset = 2;
  const std::int64_t width = config.size_or({"word_embed_proj_dim"}, model.hidden);
  model.embedding_width = width == model.hidden ? 0 : width;
  const bool before = config.flag("do_layer_norm_before", true);
  model.final_norm = before && !config.flag("_remove_final_layer_norm", false);
  BlockSpec& block = block_of(model);
  block.norm_place = before ? NormPlace::input : NormPlace::residual;
  if (!config.flag("layer_norm_elementwise_affine", true)) {
    block.norm = NormKind::layer_norm_without_weight;
  }
  block.ffn = config.size({"ffn_dim"});
  block.activation = activation_of(config, "activation_function", Activation::relu);
  set_biases(block, config.flag("enable_bias", true));
  return model;
}

/// PhiDecoderLayer: one norm for both halves; every linear layer has a bias, the head too.
ModelSpec phi(const HfReader& config) {
  ModelSpec model = outline(config, {.hidden = {"hidden_size", "n_embd"},
                                     .heads = {"num_attention_heads", "n_head"},
                                     .layers = {"num_hidden_layers", "n_layer"},
                                     .positions = {"max_position_embeddings", "n_positions"}});
  model.rope_theta = rope_theta(config);
  model.head_bias = true;
  BlockSpec& block = block_of(model);
  block.kv_heads = kv_heads(config, block.heads, {"num_key_value_heads", "n_head_kv"});
  block.ffn = config.size_or({"intermediate_size", "n_inner"}, 4 * model.hidden);
  block.activation = activation_of(
      config, config.has("activation_function") ? "activation_function" : "hidden_act",
      Activation::gelu_tanh);
  block.residual = Residual::parallel_shared;
  const auto turned = config.size_if_given({"rotary_dim"});
  block.rotary_dim =
      turned ? *turned : rotary_dim(config, "partial_rotary_factor", 0.5, block.head_dim);
  block.qk_norm = config.flag("qk_layernorm", false);
  block.qk_norm_kind = QkNorm::heads_layer;
  set_biases(block, true);
  return model;
}

/// Starcoder2MLP is plain, whatever words its configuration has for other kinds.
ModelSpec starcoder2(const HfReader& config) {
  ModelSpec model = outline(config, {.eps = "norm_epsilon", .tied = true});
  model.rope_theta = rope_theta(config);
  BlockSpec& block = block_of(model);
  require_kv_heads(config);
  block.kv_heads = kv_heads(config, block.heads);
  block.ffn = config.size({"intermediate_size"});
  block.activation = activation_of(config, "hidden_act", Activation::gelu_tanh);
  block.sliding_window = config.size_or({"sliding_window"}, 0);
  set_biases(block, config.flag("use_bias", true));
  return model;
}

/// NemotronLayerNorm1P has a weight and a bias; the MLP is plain with a squared ReLU.
ModelSpec nemotron(const HfReader& config) {
  ModelSpec model = starcoder2(config);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.norm_eps = config.number("norm_eps", 1e-5);
  BlockSpec& block = block_of(model);
  block.head_dim = config.size_or({"head_dim"}, block.head_dim);
  block.activation = activation_of(config, "hidden_act", Activation::relu_squared);
  block.rotary_dim = rotary_dim(config, "partial_rotary_factor", 0.5, block.head_dim);
  block.sliding_window = 0;
  block.qkv_bias = block.out_bias = config.flag("attention_bias", false);
  block.mlp_bias = config.flag("mlp_bias", false);
  return model;
}

/// AlbertForMaskedLM: one block runs in all layers, the embeddings are narrower than the hidden
/// state, and the head is tied to them behind a transform.
ModelSpec albert(const HfReader& config) {
  ModelSpec model = outline(config, {.positions = {"max_position_embeddings"}, .usual_eps = 1e-12});
  model.positions = Positions::learned;
  model.token_types = config.count_or("type_vocab_size", 2);
  model.embedding_width = config.size({"embedding_size"});
  model.narrow = Narrow::everything;
  model.embedding_norm = model.tied_embeddings = true;
  model.final_norm = false;
  model.head_transform = model.head_bias = model.encoder = true;
  BlockSpec& block = block_of(model);
  block.ffn = config.size({"intermediate_size"});
  block.activation = activation_of(config, "hidden_act", Activation::gelu_tanh);
  block.norm_place = NormPlace::residual;
  set_biases(block, true);
  model.runs.front().shared = true;
  return model;
}

}  // namespace

std::vector<HfFamily> gpt_families() {
  const HfFixedKey plain_residual{"apply_residual_connection_post_layernorm", "false",
                                  "the residual goes past the norms"};
  const HfFixedKey scaled{"scale_attn_weights", "true", "attention is scaled"};
  return {
      {"gpt2",
       {"GPT2LMHeadModel"},
       kGptKeys,
       {{"reorder_and_upcast_attn", "false", "attention runs in the compute type"},
        {"scale_attn_by_inverse_layer_idx", "false", "every layer scales alike"},
        scaled},
       kGptIgnored,
       gpt2},
      {"gpt_bigcode",
       {"GPTBigCodeForCausalLM"},
       with(kGptKeys, {"multi_query"}),
       {scaled},
       with(kGptIgnored,
            {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "inference_runner",
             "max_batch_size", "max_sequence_length", "pad_key_length", "pre_allocate_kv_cache",
             "runner_max_sequence_length", "validate_runner_input"}),
       gpt_bigcode},
      {"gptj",
       {"GPTJForCausalLM"},
       with(kGptKeys, {"rotary_dim"}),
       {{"rotary", "true", "positions are rotary"}, scaled},
       kGptIgnored,
       gptj},
      {"gpt_neox",
       {"GPTNeoXForCausalLM"},
       {"hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings",
        "max_sequence_length", "intermediate_size", "vocab_size", "hidden_act", "layer_norm_eps",
        "rotary_pct", "partial_rotary_factor", "rotary_emb_base", "rope_theta", "rope_parameters",
        "attention_bias", "use_parallel_residual", "tie_word_embeddings"},
       {},
       {"attention_dropout", "hidden_dropout", "classifier_dropout", "rope_scaling",
        "gradient_checkpointing"},
       gpt_neox},
      {"bloom",
       {"BloomForCausalLM"},
       {"hidden_size", "n_embed", "n_embd", "n_head", "num_attention_heads", "n_layer",
        "num_hidden_layers", "vocab_size", "layer_norm_epsilon", "seq_length",
        "tie_word_embeddings"},
       {plain_residual},
       {"attention_dropout", "attention_softmax_in_fp32", "bias_dropout_fusion", "hidden_dropout",
        "masked_softmax_fusion", "offset_alibi", "pretraining_tp", "skip_bias_add",
        "skip_bias_add_qkv", "slow_but_exact", "unk_token_id", "n_inner"},
       bloom},
      {"falcon",
       {"FalconForCausalLM", "RWForCausalLM"},
       kFalconKeys,
       {plain_residual},
       kFalconIgnored,
       falcon},
      {"RefinedWebModel", {"RWForCausalLM"}, kFalconKeys, {plain_residual}, kFalconIgnored, falcon},
      {"RefinedWeb", {"RWForCausalLM"}, kFalconKeys, {plain_residual}, kFalconIgnored, refined_web},
      {"mpt",
       {"MPTForCausalLM", "MptForCausalLM"},
       {"d_model", "n_heads", "n_layers", "max_seq_len", "vocab_size", "attn_config",
        "expansion_ratio", "learned_pos_emb", "tie_word_embeddings"},
       {{"no_bias", "true", "it has no biases"}},
       {"auto_map", "emb_pdrop", "resid_pdrop", "embedding_fraction", "init_config", "init_device",
        "layer_norm_epsilon", "logit_scale", "norm_type", "verbose", "use_norm_bias",
        "tokenizer_name"},
       mpt},
      {"opt",
       {"OPTForCausalLM"},
       {"hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings",
        "ffn_dim", "vocab_size", "word_embed_proj_dim", "activation_function",
        "do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine",
        "tie_word_embeddings"},
       {},
       {"activation_dropout", "attention_dropout", "dropout", "init_std", "layerdrop"},
       opt},
      {"phi",
       {"PhiForCausalLM"},
       {"hidden_size",         "n_embd",       "num_attention_heads",     "n_head",
        "num_hidden_layers",   "n_layer",      "max_position_embeddings", "n_positions",
        "num_key_value_heads", "n_head_kv",    "intermediate_size",       "n_inner",
        "vocab_size",          "hidden_act",   "activation_function",     "layer_norm_eps",
        "layer_norm_epsilon",  "rope_theta",   "rope_parameters",         "partial_rotary_factor",
        "rotary_dim",          "qk_layernorm", "tie_word_embeddings"},
       {},
       {"attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "rope_scaling", "auto_map",
        "flash_attn", "flash_rotary", "fused_dense", "img_processor"},
       phi},
      {"starcoder2",
       {"Starcoder2ForCausalLM"},
       {"hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers",
        "max_position_embeddings", "max_sequence_length", "intermediate_size", "vocab_size",
        "hidden_act", "norm_epsilon", "rope_theta", "rope_parameters", "sliding_window", "use_bias",
        "tie_word_embeddings"},
       {{"mlp_type", "\"default\"", "its MLP is plain"},
        {"norm_type", "\"layer_norm\"", "its norms are LayerNorms"},
        scaled},
       {"activation_function", "attention_dropout", "attention_softmax_in_fp32",
        "embedding_dropout", "layer_norm_epsilon", "residual_dropout", "rope_scaling",
        "scale_attention_softmax_in_fp32", "rms_norm_eps"},
       starcoder2},
      {"nemotron",
       {"NemotronForCausalLM"},
       {"hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers",
        "max_position_embeddings", "max_sequence_length", "intermediate_size", "vocab_size",
        "hidden_act", "norm_eps", "rope_theta", "rope_parameters", "partial_rotary_factor",
        "head_dim", "attention_bias", "mlp_bias", "tie_word_embeddings"},
       {},
       {"attention_dropout", "rope_scaling", "hidden_dropout"},
       nemotron},
      {"albert",
       {"AlbertForMaskedLM"},
       {"hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings",
        "intermediate_size", "vocab_size", "embedding_size", "type_vocab_size", "hidden_act",
        "layer_norm_eps"},
       {{"num_hidden_groups", "1", "one block runs in all layers"},
        {"inner_group_num", "1", "one block runs in all layers"},
        {"tie_word_embeddings", "true", "the head is the embedding's matrix"}},
       {"attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout_prob",
        "down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks",
        "position_embedding_type"},
       albert},
  };
}

}  // namespace planwright::hf
