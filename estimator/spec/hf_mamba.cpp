#include <string>
#include <vector>

#include "estimator/spec/hf_parts.h"

namespace planwright::hf {
namespace {

/// "auto" is a sixteenth of the hidden state, rounded up.
std::int64_t dt_rank(const HfReader& config, std::string_view key, std::int64_t hidden) {
  const Json* json = config.find(key);
  if (json == nullptr || (json->is_string() && config.text(key, "") == "auto")) {
    return (hidden + 15) / 16;
  }
  return config.size({key});
}

/// MambaBlock: a norm and a mixer, no MLP.
ModelSpec mamba(const HfReader& config) {
  ModelSpec model;
  model.hidden = config.size({"hidden_size", "d_model"});
  model.vocab = config.size({"vocab_size"});
  model.positions = Positions::none;
  model.norm_eps = config.number("layer_norm_epsilon", 1e-5);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  MambaSpec mixer;
  mixer.inner =
      config.size_or({"intermediate_size"},
                     multiple(config, "expand", config.size_or({"expand"}, 2), model.hidden));
  const std::int64_t expand = config.size_or({"expand"}, mixer.inner / model.hidden);
  if (multiple(config, "expand", expand, model.hidden) != mixer.inner) {
    config.refuse("expand", "contradicts intermediate_size = " + std::to_string(mixer.inner));
  }
  mixer.state = config.size({"state_size"});
  mixer.conv = config.size({"conv_kernel"});
  mixer.dt_rank = dt_rank(config, "time_step_rank", model.hidden);
  mixer.conv_bias = config.flag("use_conv_bias", true);
  mixer.proj_bias = config.flag("use_bias", false);
  BlockSpec block;
  block.norm = NormKind::rms_norm;
  block.activation = Activation::silu;
  block.mamba = mixer;
  model.runs = {{layer_count(config, {"num_hidden_layers", "n_layer"}), block}};
  return model;
}

MambaSpec jamba_mixer(const HfReader& config, std::int64_t hidden) {
  return {.inner = multiple(config, "mamba_expand", config.size_or({"mamba_expand"}, 2), hidden),
          .state = config.size({"mamba_d_state"}),
          .conv = config.size({"mamba_d_conv"}),
          .dt_rank = dt_rank(config, "mamba_dt_rank", hidden),
          .conv_bias = config.flag("mamba_conv_bias", true),
          .proj_bias = config.flag("mamba_proj_bias", false),
          .inner_norms = true};
}

void require_turn(const HfReader& config, const char* period, const char* offset) {
  const std::int64_t most = config.size({period}) - 1;
  if (config.count_or(offset, 0) <= most) return;
  config.refuse(offset, "must be below " + std::string(period), std::to_string(most));
}

/// Every period-th layer from `offset` on.
bool is_turn(const HfReader& config, const char* period, const char* offset, std::int64_t layer) {
  return layer % config.size({period}) == config.count_or(offset, 0);
}

/// JambaConfig.layers_block_type and layers_num_experts.
ModelSpec jamba(const HfReader& config) {
  ModelSpec model = rotary_gated(config);
  model.positions = Positions::none;
  require_turn(config, "attn_layer_period", "attn_layer_offset");
  require_turn(config, "expert_layer_period", "expert_layer_offset");
  const MambaSpec mixer = jamba_mixer(config, model.hidden);
  const BlockSpec usual = model.runs.front().block;
  MoeSpec moe{.experts = config.size({"num_experts"}),
              .top_k = config.size({"num_experts_per_tok"}),
              .ffn = usual.ffn};
  for_each_layer(model, [&](std::int64_t layer, BlockSpec& block) {
    if (!is_turn(config, "attn_layer_period", "attn_layer_offset", layer)) {
      block.mamba = mixer;
      block.heads = block.kv_heads = block.head_dim = 0;
    }
    if (moe.experts > 1 && is_turn(config, "expert_layer_period", "expert_layer_offset", layer)) {
      block.moe = moe;
      block.ffn = 0;
    }
  });
  return model;
}

}  // namespace

std::vector<HfFamily> mamba_families() {
  return {
      {"jamba",
       {"JambaForCausalLM"},
       with(rotary_keys(),
            {"attn_layer_period", "attn_layer_offset", "expert_layer_period", "expert_layer_offset",
             "num_experts", "num_experts_per_tok", "mamba_d_state", "mamba_d_conv", "mamba_expand",
             "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias"}),
       {{"sliding_window", "null", "its attention sees everything"}},
       {"attention_dropout", "auto_map", "calc_logits_for_entire_prompt", "mamba_inner_layernorms",
        "num_logits_to_keep", "output_router_logits", "router_aux_loss_coef", "use_mamba_kernels"},
       jamba},
      {"mamba",
       {"MambaForCausalLM"},
       {"hidden_size", "d_model", "num_hidden_layers", "n_layer", "vocab_size",
        "layer_norm_epsilon", "state_size", "conv_kernel", "expand", "intermediate_size",
        "time_step_rank", "use_bias", "use_conv_bias", "tie_word_embeddings"},
       {{"hidden_act", "\"silu\"", "its gate is SiLU"}},
       {"d_inner", "fused_add_norm", "pad_vocab_size_multiple", "rescale_prenorm_residual",
        "residual_in_fp32", "rms_norm", "ssm_cfg", "time_step_floor", "time_step_init_scheme",
        "time_step_max", "time_step_min", "time_step_scale", "use_mambapy", "use_associative_scan"},
       mamba},
  };
}

}  // namespace planwright::hf
