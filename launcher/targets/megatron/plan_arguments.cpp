#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/model_part.h"
#include "launcher/targets/megatron/arguments.h"
#include "launcher/targets/megatron/rules.h"
#include "launcher/targets/megatron/versions.h"

namespace planwright::targets::megatron {
namespace {

/// "Et*10|t*12|t*10L": embedding, blocks of each stage, and loss.
std::string stage_layout(const std::vector<std::int64_t>& stages) {
  std::string text = "E";
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (i > 0) text += "|";
    text += fmt::format("t*{}", stages[i]);
  }
  return text + "L";
}

void add_stages(Json& json, const Problem& problem, const Candidate& c) {
  json["pipeline-model-parallel-size"] = c.pp;
  if (c.vpp > 1) {
    json["num-virtual-stages-per-pipeline-rank"] = c.vpp;
  } else if (!c.stages.empty() || problem.model.layers() % c.pp != 0) {
    json["pipeline-model-parallel-layout"] = stage_layout(stage_layers(problem.model, c));
  }
}

void add_ranks(Json& json, const Problem& problem, const Candidate& c) {
  json["tensor-model-parallel-size"] = c.tp;
  if (c.sp) json["sequence-parallel"] = true;
  add_stages(json, problem, c);
  json["context-parallel-size"] = c.cp;
  if (c.cp > 1) json["cp-comm-type"] = exchange(c) == Exchange::ring ? "p2p" : "a2a";
  if (problem.model.has_experts()) {
    json["expert-model-parallel-size"] = c.ep;
    json["expert-tensor-parallel-size"] = c.etp;
    if (te_modules(c).groups_experts) json["moe-grouped-gemm"] = true;
    json["moe-token-dispatcher-type"] = te_modules(c).gathers_tokens ? "allgather" : "alltoall";
  }
}

/// Weights are made part by part, and gradients summed in fp32 where they are reduced so: in later
/// versions that is an argument of its own.
void add_fsdp(Json& json, const Problem& problem, const Candidate& c) {
  json["use-megatron-fsdp"] = true;
  json["data-parallel-sharding-strategy"] = c.zero == 3 ? "optim_grads_params" : "optim_grads";
  json["ckpt-format"] = "fsdp_dtensor";
  json["init-model-with-meta-device"] = true;
  if (has_fsdp_types(problem)) {
    json["megatron-fsdp-main-grads-dtype"] = word(problem.workload.recipe.gradient);
  }
}

/// Weights are gathered where they are sharded states' results.
void add_data_ranks(Json& json, const Problem& problem, const Candidate& c) {
  const bool sharded = c.zero >= 1;
  if (is_fsdp(c)) add_fsdp(json, problem, c);
  if (sharded) json["use-distributed-optimizer"] = true;
  if (c.hsdp > 1) json["num-distributed-optimizer-instances"] = c.hsdp;
  if (c.dp * c.cp == 1 || !overlaps(c)) return;
  json["overlap-grad-reduce"] = true;
  if (sharded) json["overlap-param-gather"] = true;
}

/// The formats are Transformer Engine's own for each recipe; of blocks of 32 the gathered weights
/// are in the gradients' buffer. Source: TransformerEngine transformer_engine/common/recipe/
/// __init__.py @ v2.11; Megatron-LM megatron/core/distributed/param_and_grad_buffer.py @
/// core_v0.14.0.
void add_fp8(Json& json, const Candidate& c) {
  const TeModules te = te_modules(c);
  const bool scales_tensors = te.fp8 == Fp8Recipe::delayed || te.fp8 == Fp8Recipe::tensorwise;
  json["fp8-format"] = scales_tensors ? "hybrid" : "e4m3";
  json["fp8-recipe"] = word(te.fp8);
  if (!te.fp8_weights) return;
  json["fp8-param-gather"] = true;
  if (te.fp8 == Fp8Recipe::mxfp8) json["reuse-grad-buf-for-mxfp8-param-ag"] = true;
}

void add_types(Json& json, const PrecisionRecipe& recipe) {
  if (recipe.compute == DType::bf16) json["bf16"] = true;
  if (recipe.compute == DType::fp16) json["fp16"] = true;
  const bool narrow = recipe.gradient != DType::fp32;
  if (recipe.compute == DType::bf16 && narrow) json["grad-reduce-in-bf16"] = true;
  if (recipe.compute == DType::fp16 && !narrow) json["accumulate-allreduce-grads-in-fp32"] = true;
}

void add_recompute(Json& json, const Recompute& recompute) {
  if (recompute.kind == RecomputeKind::none) return;
  const bool selective = recompute.kind == RecomputeKind::selective;
  json["recompute-granularity"] = selective ? "selective" : "full";
  if (selective) {
    json["recompute-modules"] = recompute.modules.empty()
                                    ? std::vector<std::string>{std::string(kAttentionCore)}
                                    : recompute.modules;
    return;
  }
  json["recompute-method"] = recompute.kind == RecomputeKind::first ? "block" : "uniform";
  json["recompute-num-layers"] = recompute.kind == RecomputeKind::full ? 1 : recompute.k;
}

void add_optimizer(Json& json, const Workload& job, const Candidate& c) {
  json["optimizer"] = job.optimizer == OptimizerKind::sgd ? "sgd" : "adam";
  if (!c.offload.optimizer) return;
  json["use-precision-aware-optimizer"] = true;
  json["optimizer-cpu-offload"] = true;
  json["optimizer-offload-fraction"] = 1.0;
  json["overlap-cpu-optimizer-d2h-h2d"] = true;
}

std::vector<std::string> names_of(const OffloadedModules& modules) {
  const std::pair<bool, const char*> all[] = {
      {modules.attn_norm, "attn_norm"}, {modules.qkv_linear, "qkv_linear"},
      {modules.core_attn, "core_attn"}, {modules.attn_proj, "attn_proj"},
      {modules.mlp_norm, "mlp_norm"},   {modules.expert_fc1, "expert_fc1"},
      {modules.moe_act, "moe_act"}};
  std::vector<std::string> names;
  for (const auto& [is, name] : all) {
    if (is) names.emplace_back(name);
  }
  return names;
}

void add_activations(Json& json, const Problem& problem, const Candidate& c) {
  if (!c.offload.activations) return;
  json["fine-grained-activation-offloading"] = true;
  json["offload-modules"] = names_of(offloaded_modules(problem, c));
}

/// Of the flash kernels cuDNN's are the ones that are estimated, unless results must repeat, which
/// not all devices' do.
const char* attention_backend(const Candidate& c) {
  if (c.attention == AttentionKernel::eager) return "unfused";
  return te_modules(c).deterministic ? "auto" : "fused";
}

void add_kernels(Json& json, const Candidate& c) {
  const TeModules modules = te_modules(c);
  json["transformer-impl"] = "transformer_engine";
  json["attention-backend"] = attention_backend(c);
  if (modules.deterministic) json["deterministic-mode"] = true;
  if (!modules.sums_wgrad) json["no-gradient-accumulation-fusion"] = true;
  if (c.loss != LossKernel::fused) return;
  json["cross-entropy-loss-fusion"] = true;
  json["cross-entropy-fusion-impl"] = "te";
}

}  // namespace

Json plan_arguments(const Problem& problem, const Candidate& candidate) {
  const Workload& job = problem.workload;
  Json json = Json::object();
  add_ranks(json, problem, candidate);
  add_data_ranks(json, problem, candidate);
  json["micro-batch-size"] = candidate.micro_batch;
  json["global-batch-size"] = job.global_batch;
  json["seq-length"] = job.seq;
  add_types(json, job.recipe);
  if (job.precision == Precision::fp8) add_fp8(json, candidate);
  add_recompute(json, candidate.recompute);
  add_optimizer(json, job, candidate);
  add_activations(json, problem, candidate);
  add_kernels(json, candidate);
  return json;
}

}  // namespace planwright::targets::megatron
