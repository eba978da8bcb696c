#include <gtest/gtest.h>

#include "estimator/spec/hf_config.h"
#include "hf_files.h"

namespace planwright {
namespace {

using testing::fault_of;
using testing::patched;

struct RefusedCase {
  const char* base;
  const char* patch;
  const char* key;
  const char* rule;  ///< a part of it
  const char* nearest;
};

const RefusedCase kRefused[] = {
    // missing: UR-059, UR-067, UR-070
    {"llama-2-7b", R"({"hidden_size":"absent"})", "hidden_size", "is missing", ""},
    {"llama-2-7b", R"({"intermediate_size":null})", "intermediate_size", "is missing", ""},
    {"llama-2-7b", R"({"num_hidden_layers":"absent"})", "num_hidden_layers", "is missing", ""},
    {"llama-2-7b", R"({"vocab_size":"absent"})", "vocab_size", "is missing", ""},
    {"gpt2", R"({"n_embd":"absent"})", "n_embd", "is missing", ""},
    {"gpt2", R"({"n_positions":"absent","n_ctx":null})", "n_positions", "is missing", ""},
    {"mistral-7b", R"({"num_key_value_heads":"absent"})", "num_key_value_heads", "is missing", ""},
    {"llama-2-7b", R"({"model_type":"absent"})", "model_type", "is missing", ""},
    // unknown: UR-057, UR-058, UR-063, UR-066, UR-128
    {"llama-2-7b", R"({"hidden_sise":4096})", "hidden_sise", "not a key of llama", "hidden_size"},
    {"llama-2-7b", R"({"text_config":{}})", "text_config", "not a key of llama", ""},
    {"llama-2-7b", R"({"block_configs":[]})", "block_configs", "not a key of llama", ""},
    {"llama-2-7b", R"({"num_local_experts":8})", "num_local_experts", "not a key of llama", ""},
    {"gpt2", R"({"ffn_dim":3072})", "ffn_dim", "not a key of gpt2", ""},
    {"llama-2-7b", R"({"layer_types":[]})", "layer_types", "not a key of llama", ""},
    // what another model_type computes
    {"llama-2-7b", R"({"model_type":"llama5"})", "model_type", "gpt2", "llama"},
    {"llama-2-7b", R"({"model_type":7})", "model_type", "must be a string", ""},
    {"llama-2-7b", R"({"model_type":"mistral"})", "architectures", "must be MistralForCausalLM",
     "MistralForCausalLM"},
    {"llama-2-7b", R"({"architectures":["LlamaForSequenceClassification"]})", "architectures",
     "must be LlamaForCausalLM", "LlamaForCausalLM"},
    {"llama-2-7b", R"({"architectures":"LlamaForCausalLM"})", "architectures", "must be a list",
     ""},
    {"llama-2-7b", R"({"hidden_act":"gellu"})", "hidden_act", "must be silu", "gelu"},
    {"gpt2", R"({"activation_function":"relu7"})", "activation_function", "must be silu", "relu"},
    {"gpt2", R"({"reorder_and_upcast_attn":true})", "reorder_and_upcast_attn", "must be false",
     "false"},
    {"gpt2", R"({"add_cross_attention":true})", "add_cross_attention", "must be false", "false"},
    {"gpt2", R"({"pruned_heads":{"1":[0]}})", "pruned_heads", "must be {}", "{}"},
    {"llama-2-7b", R"({"partial_rotary_factor":0.5})", "partial_rotary_factor", "must be 1.0",
     "1.0"},
    {"llama-2-7b", R"({"auto_map":{"AutoModel":"x.Y"}})", "auto_map", "code of its own", "null"},
    // UR-071
    {"llama-3-8b", R"({"quantization_config":{"quant_method":"fp9"}})",
     "quantization_config.quant_method", "must be awq", "fp8"},
    {"llama-3-8b", R"({"quantization_config":{"bits":4}})", "quantization_config.quant_method",
     "is missing", ""},
    {"llama-3-8b", R"({"quantization_config":{"quant_method":"gptq","bits":3}})",
     "quantization_config.bits", "must be 4 or 8", "4"},
    {"llama-3-8b", R"({"quantization_config":{"quant_method":"awq","gruop_size":64}})",
     "quantization_config.gruop_size", "not a key of awq", "group_size"},
    {"llama-3-8b", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128]}})",
     "quantization_config.weight_block_size", "two sizes", "[128, 128]"},
    {"llama-3-8b",
     R"({"quantization_config":{"quant_method":"fp8","ignored_layers":["model.layers.0.mlp"]}})",
     "quantization_config.ignored_layers", "names model.layers.0.mlp", ""},
    {"llama-3-8b",
     R"({"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,
         "load_in_8bit":true}})",
     "quantization_config.load_in_4bit", "contradicts load_in_8bit", "false"},
    {"llama-3-8b", R"({"quantization_config":{"quant_method":"mxfp4","group_size":64}})",
     "quantization_config.group_size", "must be 32", "32"},
    {"llama-3-8b", R"({"quantization_config":{"quant_method":"compressed-tensors","config_groups":
        {"group_0":{"targets":["re:.*mlp.*"],"weights":{"num_bits":8,"type":"float"}}}}})",
     "quantization_config.config_groups.group_0.targets", "every linear layer", R"(["Linear"])"},
    {"jamba-v0.1", R"({"attn_layer_offset":8})", "attn_layer_offset", "below attn_layer_period",
     "7"},
    {"mamba-2.8b", R"({"n_layer":12})", "n_layer", "contradicts num_hidden_layers = 64", "64"},
    {"mamba-2.8b", R"({"expand":3})", "expand", "contradicts intermediate_size = 5120", ""},
    {"deepseek-v3", R"({"qk_rope_head_dim":63})", "qk_rope_head_dim", "turn it in pairs", ""},
    {"llama-3-8b", R"({"quantization_config":7})", "quantization_config", "must be an object", ""},
    // experts, latent attention, Mamba, nested objects
    {"mixtral-8x7b", R"({"num_experts_per_tok":9})", "num_experts_per_tok", "at most the 8", "8"},
    {"mixtral-8x7b", R"({"num_local_experts":"absent"})", "num_local_experts", "is missing", ""},
    {"mixtral-8x7b", R"({"num_experts":8})", "num_experts", "not a key of mixtral",
     "num_experts_per_tok"},
    {"qwen3-30b-a3b", R"({"use_sliding_window":true})", "use_sliding_window", "must be false",
     "false"},
    {"llama-3.1-8b",
     R"({"rope_scaling":{"rope_type":"llama3","factor":8.0,)"
     R"("original_max_position_embeddings":8.7e245}})",
     "rope_scaling.original_max_position_embeddings", "beyond any number", ""},
    {"deepseek-v3", R"({"kv_lora_rank":0})", "kv_lora_rank", "at least 1", "1"},
    {"deepseek-v3", R"({"v_head_dim":"absent"})", "v_head_dim", "is missing", ""},
    {"dbrx", R"({"ffn_config":{"moe_num_expert":16}})", "ffn_config.moe_num_expert",
     "not a key of the experts of dbrx", "moe_num_experts"},
    {"dbrx", R"({"attn_config":"absent"})", "attn_config", "is missing", ""},
    {"dbrx", R"({"attn_config":{"kv_n_heads":7}})", "attn_config.kv_n_heads",
     "must divide n_heads = 48", "6"},
    {"mpt-7b", R"({"attn_config":{"qk_ln":true}})", "attn_config.qk_ln", "must be false", "false"},
    {"jamba-v0.1", R"({"mamba_d_conv":0})", "mamba_d_conv", "at least 1", "1"},
    {"mamba-2.8b", R"({"num_attention_heads":8})", "num_attention_heads", "not a key of mamba", ""},
    {"mamba-2.8b", R"({"time_step_rank":"automatic"})", "time_step_rank", "a whole number", ""},
    {"gemma-3-27b", R"({"text_config":{"model_type":"gemma3_txt"}})", "text_config.model_type",
     "must be gemma3_text", "gemma3_text"},
    {"gemma-3-27b", R"({"text_config":"absent"})", "text_config", "is missing", ""},
    {"gemma-3-27b",
     R"({"vision_config":{"model_type":"siglip_vision_model","hidden_size":1152,)"
     R"("num_hidden_layers":27,"intermediate_size":4304,"patch_size":10000,)"
     R"("image_size":896}})",
     "vision_config.patch_size", "at most image_size = 896", "896"},
    {"deepseek-v3", R"({"first_k_dense_replace":70})", "first_k_dense_replace",
     "at most the 61 layers", "61"},
    {"llama-2-7b", R"({"model_type":"llava","text_config":7})", "text_config", "must be an object",
     ""},
    {"llama-2-7b", R"({"model_type":"llava","text_config":{"model_type":"lama"}})",
     "text_config.model_type", "is not one that can be read", "llama"},
    {"llama-2-7b", R"({"model_type":"llava","text_config":{}})", "text_config.model_type",
     "is missing", ""},
    {"bloom-176b", R"({"apply_residual_connection_post_layernorm":true})",
     "apply_residual_connection_post_layernorm", "must be false", "false"},
    {"qwen-1.8b-v1", R"({"intermediate_size":11007})", "intermediate_size", "must be even", ""},
    {"gpt-oss-20b", R"({"layer_types":["full_attention"]})", "layer_types",
     "one entry for each of the 24 layers, not 1", ""},
    {"phi-2", R"({"partial_rotary_factor":1.5})", "partial_rotary_factor", "at most 1", "1.0"},
    {"baichuan2-7b", R"({"max_position_embeddings":"absent","model_max_length":"absent"})",
     "model_max_length", "is missing", ""},
    // contradictory
    {"gpt2", R"({"n_ctx":512})", "n_ctx", "contradicts n_positions = 1024", "1024"},
    {"gpt2", R"({"hidden_size":1024})", "hidden_size", "contradicts n_embd = 768", "768"},
    {"gpt2", R"({"n_head":10})", "n_head", "must divide n_embd = 768", "8"},
    {"llama-2-7b", R"({"num_attention_heads":30,"num_key_value_heads":30})", "num_attention_heads",
     "must divide hidden_size = 4096", "32"},
    {"llama-3-8b", R"({"num_key_value_heads":5})", "num_key_value_heads",
     "must divide num_attention_heads = 32", "4"},
    {"llama-3-8b", R"({"num_key_value_heads":64})", "num_key_value_heads",
     "must divide num_attention_heads = 32", "32"},
    {"llama-3-8b", R"({"rope_parameters":{"rope_theta":1e4}})", "rope_theta",
     "contradicts the one in rope_parameters", ""},
    {"llama-3-8b", R"({"head_dim":63})", "head_dim", "turn them in pairs", ""},
    {"qwen2.5-0.5b", R"({"layer_types":["full_attention"]})", "layer_types",
     "one entry for each of the 24 layers, not 1", ""},
    {"qwen2.5-0.5b", R"({"num_hidden_layers":1,"layer_types":["sliding_attention"]})",
     "layer_types", "use_sliding_window is off", "full_attention"},
    {"qwen2.5-0.5b", R"({"num_hidden_layers":1,"layer_types":["linear_attention"]})", "layer_types",
     "not linear_attention", "sliding_attention"},
    {"qwen2.5-0.5b", R"({"use_sliding_window":true,"max_window_layers":null})", "max_window_layers",
     "is missing", ""},
    {"qwen2.5-0.5b", R"({"use_sliding_window":true,"max_window_layers":1,"sliding_window":null})",
     "sliding_window", "is missing", ""},
    // wrong types and sizes: UR-066
    {"llama-2-7b", R"({"hidden_size":"4096"})", "hidden_size", "a whole number, not a string", ""},
    {"llama-2-7b", R"({"hidden_size":18446744073709551616})", "hidden_size",
     "beyond any number that is meant here", ""},
    {"llama-2-7b", R"({"hidden_size":4096.5})", "hidden_size", "a whole number, not a fraction",
     ""},
    {"llama-2-7b", R"({"num_key_value_heads":[8,8]})", "num_key_value_heads",
     "a whole number, not a list", ""},
    {"llama-2-7b", R"({"hidden_size":0})", "hidden_size", "at least 1", "1"},
    {"llama-2-7b", R"({"vocab_size":-5})", "vocab_size", "at least 1", "1"},
    {"llama-2-7b", R"({"vocab_size":1099511627777})", "vocab_size", "at most 1099511627776",
     "1099511627776"},
    {"llama-2-7b", R"({"num_hidden_layers":1000000000})", "num_hidden_layers", "at most 4096",
     "4096"},
    {"llama-2-7b", R"({"vocab_size":1099511627776})", "", "more than 2^50 parameters", ""},
    {"llama-2-7b", R"({"tie_word_embeddings":"false"})", "tie_word_embeddings",
     "true or false, not a string", ""},
    {"llama-2-7b", R"({"rms_norm_eps":0})", "rms_norm_eps", "above 0", ""},
    {"llama-2-7b", R"({"rope_parameters":7})", "rope_parameters", "must be an object", ""},
};

TEST(SpecHfConfig, WhatCannotBeTrustedIsRefusedByFileKeyAndRule) {
  for (const RefusedCase& c : kRefused) {
    SCOPED_TRACE(std::string(c.base) + " with " + c.patch);
    const Json config = patched(c.base, c.patch);
    const InputFault fault = fault_of([&] { model_from_hf_config(config, "m/config.json"); });
    EXPECT_EQ(fault.file, "m/config.json");
    EXPECT_EQ(fault.key, c.key);
    EXPECT_NE(fault.rule.find(c.rule), std::string::npos) << fault.rule;
    EXPECT_EQ(fault.nearest, c.nearest);
    if (config.contains(c.key) && !config[c.key].is_null()) {
      EXPECT_FALSE(fault.value.empty());
    }
  }
}

}  // namespace
}  // namespace planwright
