#include "estimator/spec/hf_families.h"

#include "estimator/spec/hf_models.h"

namespace planwright {
namespace {

// Sources: as in hf_models.h.
const std::vector<std::string_view> kRotaryKeys{"hidden_size",
                                                "num_attention_heads",
                                                "num_key_value_heads",
                                                "num_hidden_layers",
                                                "max_position_embeddings",
                                                "max_sequence_length",
                                                "intermediate_size",
                                                "head_dim",
                                                "vocab_size",
                                                "hidden_act",
                                                "rms_norm_eps",
                                                "rope_theta",
                                                "rope_parameters",
                                                "tie_word_embeddings"};

std::vector<std::string_view> with(std::vector<std::string_view> keys,
                                   const std::vector<std::string_view>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

std::vector<HfFamily> make_table() {
  const HfFixedKey whole_rotation{"partial_rotary_factor", "1.0",
                                  "rotary positions turn all of it"};
  return {
      {"gpt2",
       "GPT2LMHeadModel",
       with({"n_embd", "n_head", "n_layer", "n_positions", "n_ctx", "n_inner"},
            {"hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings",
             "vocab_size", "activation_function", "layer_norm_epsilon", "tie_word_embeddings"}),
       {{"reorder_and_upcast_attn", "false", "attention runs in the compute type"},
        {"scale_attn_by_inverse_layer_idx", "false", "every layer scales alike"},
        {"scale_attn_weights", "true", "attention is scaled"}},
       {"attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj", "gradient_checkpointing"},
       hf::gpt2},
      {"llama",
       "LlamaForCausalLM",
       with(kRotaryKeys, {"attention_bias", "mlp_bias"}),
       {whole_rotation},
       {"attention_dropout", "pretraining_tp", "rope_scaling", "rope_interleaved"},
       hf::llama},
      {"mistral",
       "MistralForCausalLM",
       with(kRotaryKeys, {"sliding_window"}),
       {whole_rotation,
        {"attention_bias", "false", "MistralAttention has no biases"},
        {"mlp_bias", "false", "MistralMLP has no biases"}},
       {"attention_dropout", "rope_scaling"},
       hf::mistral},
      {"qwen2",
       "Qwen2ForCausalLM",
       with(kRotaryKeys,
            {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"}),
       {whole_rotation, {"use_mrope", "false", "positions have one dimension"}},
       {"attention_dropout", "rope_scaling"},
       hf::qwen2},
      {"qwen3",
       "Qwen3ForCausalLM",
       with(kRotaryKeys, {"sliding_window", "use_sliding_window", "max_window_layers",
                          "layer_types", "attention_bias"}),
       {whole_rotation, {"use_mrope", "false", "positions have one dimension"}},
       {"attention_dropout", "rope_scaling"},
       hf::qwen3},
  };
}

}  // namespace

const std::vector<HfFamily>& hf_family_table() {
  static const std::vector<HfFamily> kTable = make_table();
  return kTable;
}

// huggingface/transformers src/transformers/configuration_utils.py: PretrainedConfig.
const std::vector<std::string_view>& hf_ignored_everywhere() {
  static const std::vector<std::string_view> kKeys{
      // what the file is, and how weights are made and stored
      "model_type", "architectures", "transformers_version", "torch_dtype", "dtype",
      "initializer_range", "name_or_path", "use_cache", "torchscript", "use_bfloat16",
      "tf_legacy_loss", "unsloth_fixed", "unsloth_version",
      // tokens
      "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id",
      "decoder_start_token_id", "tokenizer_class", "prefix",
      // what a call returns, and heads that a language model has not
      "output_attentions", "output_hidden_states", "return_dict", "is_decoder",
      "tie_encoder_decoder", "chunk_size_feed_forward", "finetuning_task", "id2label", "label2id",
      "num_labels", "problem_type", "task_specific_params",
      // generation
      "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
      "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
      "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
      "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
      "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens",
      "temperature", "top_k", "top_p", "typical_p"};
  return kKeys;
}

const std::vector<HfFixedKey>& hf_fixed_everywhere() {
  static const std::vector<HfFixedKey> kKeys{
      {"quantization_config", "null", "quantised checkpoints cannot be planned for yet"},
      {"auto_map", "null", "a model with code of its own may be of any size"},
      {"is_encoder_decoder", "false", "the model is a decoder only"},
      {"add_cross_attention", "false", "the model is a decoder only"},
      {"cross_attention_hidden_size", "null", "the model is a decoder only"},
      {"pruned_heads", "{}", "every layer has all its heads"}};
  return kKeys;
}

}  // namespace planwright
