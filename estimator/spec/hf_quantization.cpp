#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/hf_parts.h"

/// quantization_config of a checkpoint. Source: huggingface/transformers
/// src/transformers/utils/quantization_config.py, version 4.57.
namespace planwright::hf {
namespace {

WeightFormat named(const char* name) { return find_weight_format(name, "", ""); }

/// Bits and group of GPTQ and AWQ; a group of -1 is a whole row.
WeightFormat packed_integers(const HfReader& config, WeightFormat format, std::int64_t usual_bits) {
  const std::int64_t bits = config.size_or({"bits", "w_bit"}, usual_bits);
  if (bits != 4 && bits != 8) config.refuse("bits", "must be 4 or 8", bits < 6 ? "4" : "8");
  if (bits == 8) {
    format.type = WeightType::int8;
    format.zero_bits = 8;
  }
  const Json* group = config.find("group_size");
  if (group != nullptr && *group == Json(-1)) {
    format.group.columns = 0;
  } else {
    format.group.columns = config.size_or({"group_size", "q_group_size"}, 128);
  }
  return format;
}

WeightFormat gptq(const HfReader& config) {
  config.require_keys({"quant_method",
                       "bits",
                       "group_size",
                       "desc_act",
                       "sym",
                       "damp_percent",
                       "static_groups",
                       "true_sequential",
                       "model_name_or_path",
                       "model_file_base_name",
                       "checkpoint_format",
                       "pack_dtype",
                       "lm_head",
                       "dataset",
                       "tokenizer",
                       "batch_size",
                       "block_name_to_quantize",
                       "module_name_preceding_first_block",
                       "use_cuda_fp16",
                       "model_seqlen",
                       "pad_token_id",
                       "use_exllama",
                       "max_input_length",
                       "exllama_config",
                       "cache_block_outputs",
                       "modules_in_block_to_quantize",
                       "is_marlin_format",
                       "quantizer",
                       "meta",
                       "disable_exllama",
                       "backend",
                       "version",
                       "dynamic"},
                      "gptq checkpoints");
  return packed_integers(config, named("gptq"), 4);
}

WeightFormat awq(const HfReader& config) {
  config.require_keys({"quant_method", "bits", "w_bit", "group_size", "q_group_size", "version",
                       "zero_point", "backend", "do_fuse", "fuse_max_seq_len", "exllama_config",
                       "modules_to_fuse", "modules_to_not_convert"},
                      "awq checkpoints");
  WeightFormat format = packed_integers(config, named("awq"), 4);
  if (!config.flag("zero_point", true)) format.zero_bits = 0;
  return format;
}

WeightFormat fp8(const HfReader& config) {
  config.require_keys({"quant_method", "activation_scheme", "fmt", "weight_block_size",
                       "modules_to_not_convert", "ignored_layers", "dequantize", "scale_fmt"},
                      "fp8 checkpoints");
  std::vector<std::int64_t> block;
  const Json* json = config.find("weight_block_size");
  if (json == nullptr) {
    WeightFormat format = named("fp8-block");
    format.group = {};  // one scale for the tensor
    return format;
  }
  decode(*json, config.at("weight_block_size"), block);
  if (block.size() != 2 || block[0] < 1 || block[1] < 1) {
    config.refuse("weight_block_size", "must be two sizes, of rows and columns", "[128, 128]");
  }
  WeightFormat format = named("fp8-block");
  format.group = {.rows = block[0], .columns = block[1]};
  return format;
}

WeightFormat bitsandbytes(const HfReader& config) {
  config.require_keys(
      {"quant_method", "load_in_4bit", "load_in_8bit", "_load_in_4bit", "_load_in_8bit",
       "bnb_4bit_quant_type", "bnb_4bit_use_double_quant", "bnb_4bit_compute_dtype",
       "bnb_4bit_quant_storage", "llm_int8_enable_fp32_cpu_offload", "llm_int8_has_fp16_weight",
       "llm_int8_skip_modules", "llm_int8_threshold"},
      "bitsandbytes checkpoints");
  if (config.flag("load_in_8bit", false)) {
    if (config.flag("load_in_4bit", false)) {
      config.refuse("load_in_4bit", "contradicts load_in_8bit", "false");
    }
    return named("int8");
  }
  if (!config.flag("load_in_4bit", false)) {
    config.refuse_missing("load_in_4bit", "; one of it and load_in_8bit must be true");
  }
  config.require_word("bnb_4bit_quant_type", {"fp4", "nf4"});
  const std::string type = config.text("bnb_4bit_quant_type", "fp4");
  const bool twice = config.flag("bnb_4bit_use_double_quant", false);
  if (type == "nf4") return named(twice ? "nf4-dq" : "nf4");
  return named(twice ? "fp4-dq" : "fp4");
}

/// One group of layers, quantised alike. Source: neuralmagic/compressed-tensors
/// quantization/quant_args.py.
WeightFormat compressed_tensors(const HfReader& config) {
  const HfReader groups = config.inner("config_groups");
  if (groups.json().size() != 1) {
    config.refuse("config_groups", "must hold one group: layers of several kinds are not read");
  }
  const std::string name = groups.json().begin().key();
  const HfReader group = groups.inner(name);
  const Json* targets = group.find("targets");
  if (targets != nullptr && *targets != Json{"Linear"}) {
    group.refuse("targets", "must be every linear layer", R"(["Linear"])");
  }
  if (config.find("kv_cache_scheme") != nullptr) {
    config.refuse("kv_cache_scheme", "must be null: say --kv-dtype", "null");
  }
  const HfReader weights = group.inner("weights");
  weights.require_word("type", {"float", "int"});
  weights.require_word("strategy", {"tensor", "channel", "group", "block"});
  const std::int64_t bits = weights.size({"num_bits"});
  if (bits != 4 && bits != 8) weights.refuse("num_bits", "must be 4 or 8", bits < 6 ? "4" : "8");
  const bool floats = weights.text("type", "int") == "float";
  const std::string strategy = weights.text("strategy", "tensor");
  WeightFormat format{.name = "compressed-tensors", .scale_bits = 16};
  if (bits == 8) format.type = floats ? WeightType::fp8 : WeightType::int8;
  if (bits == 4) format.type = floats ? WeightType::fp4 : WeightType::int4;
  if (strategy == "channel") format.group = {.rows = 1};
  if (strategy == "group") format.group = {.rows = 1, .columns = weights.size({"group_size"})};
  if (strategy == "block") format.group = {.rows = 128, .columns = 128};
  if (!weights.flag("symmetric", true)) format.zero_bits = bits;
  return format;
}

/// Modules that are never stored otherwise: what surrounds the blocks, norms, routers.
bool is_kept_anyway(const std::string& module) {
  constexpr std::array<std::string_view, 12> kWords{"lm_head",
                                                    "embed",
                                                    "norm",
                                                    "router",
                                                    "vision",
                                                    "visual",
                                                    "wte",
                                                    "wpe",
                                                    "score",
                                                    "image",
                                                    "shared_expert_gate",
                                                    "rotary"};
  return module.ends_with(".gate") || module == "gate" ||
         std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return module.find(word) != std::string::npos; });
}

/// The half of all blocks that a module's name or pattern stands for; empty if it is another part.
std::string half_of(std::string module) {
  for (const std::string_view affix : {"re:.*", "model.layers.*.", "model.layers.", "*."}) {
    if (module.starts_with(affix)) module.erase(0, affix.size());
  }
  for (const std::string_view affix : {".*", "*", "."}) {
    if (module.ends_with(affix)) module.resize(module.size() - affix.size());
  }
  return module == "self_attn" || module == "mlp" ? module : "";
}

/// Halves of blocks that stay in the arithmetic's type.
std::vector<std::string> kept_halves(const HfReader& config) {
  std::vector<std::string> kept;
  for (const char* key :
       {"modules_to_not_convert", "llm_int8_skip_modules", "ignored_layers", "ignore"}) {
    std::vector<std::string> modules;
    if (const Json* json = config.find(key)) decode(*json, config.at(key), modules);
    for (const std::string& module : modules) {
      if (is_kept_anyway(module)) continue;
      const std::string half = half_of(module);
      if (half.empty()) {
        config.refuse(key,
                      "names " + module.substr(0, 60) +
                          ": only the attention (self_attn) or the MLP (mlp) of all layers can "
                          "be left as it is, beside what is never quantised");
      }
      kept.push_back(half);
    }
  }
  return kept;
}

}  // namespace

std::optional<WeightFormat> checkpoint_format(const HfReader& model) {
  if (model.find("quantization_config") == nullptr) return std::nullopt;
  const HfReader config = model.inner("quantization_config");
  if (config.find("quant_method") == nullptr) config.refuse_missing("quant_method");
  config.require_word("quant_method", {"awq", "bitsandbytes", "compressed-tensors", "fbgemm_fp8",
                                       "fp8", "gptq", "mxfp4"});
  const std::string method = config.text("quant_method", "");
  WeightFormat format;
  if (method == "awq") format = awq(config);
  if (method == "bitsandbytes") format = bitsandbytes(config);
  if (method == "compressed-tensors") format = compressed_tensors(config);
  if (method == "fbgemm_fp8") format = named("fp8");
  if (method == "fp8") format = fp8(config);
  if (method == "gptq") format = gptq(config);
  if (method == "mxfp4") {
    if (config.size_or({"group_size"}, 32) != 32) config.refuse("group_size", "must be 32", "32");
    format = named("mxfp4");
  }
  format.kept = kept_halves(config);
  return format;
}

}  // namespace planwright::hf
