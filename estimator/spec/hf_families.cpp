#include "estimator/spec/hf_families.h"

#include <algorithm>

namespace planwright {
namespace {

std::vector<HfFamily> make_table() {
  std::vector<HfFamily> table;
  for (const auto& families : {hf::gpt_families(), hf::rotary_families(), hf::expert_families(),
                               hf::mamba_families(), hf::wrapped_families()}) {
    table.insert(table.end(), families.begin(), families.end());
  }
  std::sort(table.begin(), table.end(),
            [](const auto& a, const auto& b) { return a.model_type < b.model_type; });
  return table;
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
      "tf_legacy_loss", "unsloth_fixed", "unsloth_version", "transformers.js_config",
      "quantization_config",
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
      {"auto_map", "null", "a model with code of its own may be of any size"},
      {"is_encoder_decoder", "false", "the model is a decoder only"},
      {"add_cross_attention", "false", "the model is a decoder only"},
      {"cross_attention_hidden_size", "null", "the model is a decoder only"},
      {"pruned_heads", "{}", "every layer has all its heads"}};
  return kKeys;
}

}  // namespace planwright
