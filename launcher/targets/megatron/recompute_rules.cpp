#include "launcher/targets/megatron/recompute_rules.h"

#include <algorithm>

#include "estimator/spec/model_features.h"
#include "estimator/spec/model_part.h"
#include "estimator/spec/recompute_plan.h"
#include "launcher/targets/megatron/rules.h"
#include "launcher/targets/megatron/versions.h"
#include "launcher/targets/shared/dimensions.h"

namespace planwright::targets::megatron {
namespace {

constexpr const char* kConfig =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py @ core_v0.14.0 to 0.19.0";
constexpr const char* kBlock =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py @ core_v0.14.0 to 0.19.0";
constexpr const char* kLayer =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_layer.py @ core_v0.14.0";

/// One that a model without experts does not have.
bool is_of_experts(const std::string& module) {
  return module.starts_with("moe") || module == "shared_experts";
}

bool has_shared_experts(const Problem& p) {
  return p.model.any_block([](const BlockSpec& b) { return b.moe && b.moe->shared_ffn > 0; });
}

bool has_module(const std::string& name) {
  const std::vector<std::string> all = recomputed_module_names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

bool names_module(const Candidate& c, bool (*is)(const std::string&)) {
  return std::any_of(c.recompute.modules.begin(), c.recompute.modules.end(), is);
}

bool has_latents(const Problem& p) { return has_feature(p.model, ModelFeature::latent_attention); }

/// Norms of their own: others are one kernel with the product behind them.
bool has_norms(const Problem& p) { return has_latents(p) || p.model.has_experts(); }

bool has_dense_blocks(const Problem& p) {
  return p.model.any_block([](const BlockSpec& b) { return !b.moe; });
}

bool has_uneven_chunks(const Problem& p, const Candidate& c) {
  if (c.recompute.kind != RecomputeKind::chunk || c.recompute.k < 1) return false;
  const auto stages = stage_layers(p.model, c);
  return std::any_of(stages.begin(), stages.end(),
                     [&](std::int64_t layers) { return layers / c.vpp % c.recompute.k != 0; });
}

}  // namespace

std::vector<std::string> recomputed_module_names() {
  return {"core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"};
}

std::vector<Rule> recompute_rules_of_files() {
  return {
      recompute_among({RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full,
                       RecomputeKind::chunk, RecomputeKind::first},
                      kConfig),
      {"recompute_modules",
       [](const Problem&, const Candidate& c) {
         return !std::all_of(c.recompute.modules.begin(), c.recompute.modules.end(), has_module);
       },
       "recompute {recompute} names a module that Megatron Core does not recompute",
       "use " + join_words(recomputed_module_names()), kConfig},
      {"recompute_of_experts",
       [](const Problem& p, const Candidate& c) {
         return !p.model.has_experts() && names_module(c, is_of_experts);
       },
       "recompute {recompute} names a part of experts, and the model has none",
       "leave that module out", kConfig},
      {"recompute_of_shared_experts",
       [](const Problem& p, const Candidate& c) {
         return recomputed_modules(c.recompute).shared_experts && !has_shared_experts(p);
       },
       "recompute {recompute} names experts that every token goes through, and the model has none",
       "leave shared_experts out", kConfig},
      {"recompute_of_groups",
       [](const Problem&, const Candidate& c) {
         return recomputed_modules(c.recompute).moe_act && !te_modules(c).groups_experts;
       },
       "recompute {recompute}: Megatron Core makes experts' activations again with "
       "--moe-grouped-gemm",
       "leave moe_act or the knob out", kConfig},
      {"recompute_of_latents",
       [](const Problem& p, const Candidate& c) {
         return recomputed_modules(c.recompute).mla_up_proj && !has_latents(p);
       },
       "recompute {recompute} names a part of latent attention, and the model has none",
       "leave mla_up_proj out", kConfig},
      {"recompute_whole_chunks",
       [](const Problem& p, const Candidate& c) {
         return !cuts_last_chunk(p) && c.pp <= p.model.layers() && has_uneven_chunks(p, c);
       },
       "recompute {recompute} does not divide the blocks of each stage, where Megatron Core before "
       "0.17 fails",
       "use a count that divides them", kBlock},
  };
}

/// Megatron Core takes them and does nothing: a search would try one plan twice.
std::vector<Rule> estimable_modules() {
  return {
      {"estimates_norms_again",
       [](const Problem& p, const Candidate& c) {
         return recomputed_modules(c.recompute).layernorm && !has_norms(p);
       },
       "recompute {recompute}: without experts or latent attention each norm is one kernel with "
       "the "
       "product behind it, and is not made again",
       "leave layernorm out", kLayer},
      {"estimates_mlps_again",
       [](const Problem& p, const Candidate& c) {
         return recomputed_modules(c.recompute).mlp && !has_dense_blocks(p);
       },
       "recompute {recompute} names the MLP of blocks without experts, and the model has none",
       "leave mlp out", kLayer}};
}

}  // namespace planwright::targets::megatron
