#include "launcher/targets/deepspeed/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/targets/deepspeed/rules.h"
#include "launcher/targets/shared/launch.h"

namespace planwright::targets::deepspeed {
namespace {

Json offload_block(const Offload& offload) {
  Json block{{"device", word(offload.to)}, {"pin_memory", offload.to == OffloadTo::cpu}};
  if (offload.to == OffloadTo::nvme) block["nvme_path"] = kNvmePlaceholder;
  return block;
}

/// The type in which micro-batches are summed. Without ZeRO it is the weights' own: source:
/// deepspeed/runtime/engine.py, _do_optimizer_sanity_check @ 0.19.8.
DType accumulation_type_of(const Problem& problem, const Candidate& candidate) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  return candidate.zero == 0 ? recipe.compute : recipe.summed.value_or(recipe.gradient);
}

void add_precision(Json& json, const Problem& problem, const Candidate& candidate) {
  const DType compute = problem.workload.recipe.compute;
  json["bf16"] = {{"enabled", compute == DType::bf16}};
  json["fp16"] = {{"enabled", compute == DType::fp16}};
  if (compute == DType::fp16) json["fp16"]["loss_scale"] = 0;  // dynamic
  json["data_types"] = {{"grad_accum_dtype", word(accumulation_type_of(problem, candidate))}};
}

void add_optimizer(Json& json, const Problem& problem) {
  const std::string type = optimizer_type(problem.workload.optimizer);
  if (type.empty()) {
    json["zero_allow_untested_optimizer"] = true;
    return;
  }
  json["optimizer"] = {{"type", type}, {"params", Json::object()}};
  const bool cpu = problem.cluster.device.kind == DeviceKind::cpu;
  if (cpu && type == "AdamW") json["optimizer"]["params"]["torch_adam"] = true;
  if (cpu || type == "SGD") json["zero_allow_untested_optimizer"] = true;
}

/// Read by DeepSpeed's own checkpoint function alone.
Json activation_checkpointing(const Candidate& candidate) {
  return {{"partition_activations", false},
          {"cpu_checkpointing", candidate.offload.activations},
          {"contiguous_memory_optimization", false},
          {"synchronize_checkpoint_boundary", false},
          {"profile", false}};
}

}  // namespace

std::optional<std::int64_t> larger_buffer(const ModelSpec& model, const Candidate& candidate) {
  if (!candidate.offload.params || candidate.offload.to != OffloadTo::nvme) return std::nullopt;
  std::int64_t largest = 0;
  for (const ParameterTensor& each : parameter_tensors(model)) {
    largest = std::max(largest, each.numel());
  }
  const std::int64_t ranks = candidate.data_ranks();
  const std::int64_t part = (largest + ranks - 1) / ranks;
  return part > kUsualBuffer ? std::optional(part) : std::nullopt;
}

Json zero_optimization(const Problem& problem, const Candidate& candidate) {
  const std::int64_t bucket = reduce_bucket_elements(candidate);
  Json zero{{"stage", candidate.zero},
            {"overlap_comm", overlaps(candidate)},
            {"contiguous_gradients", true},
            {"reduce_scatter", true},
            {"reduce_bucket_size", bucket}};
  if (candidate.zero < 3) {
    zero["allgather_bucket_size"] = bucket;
  } else {
    zero["sub_group_size"] = 1000000000;
    zero["stage3_prefetch_bucket_size"] = bucket / 10;
    zero["stage3_param_persistence_threshold"] = 100000;
    zero["stage3_max_live_parameters"] = 1000000000;
    zero["stage3_max_reuse_distance"] = 1000000000;
    zero["stage3_gather_16bit_weights_on_model_save"] = true;
  }
  if (candidate.offload.optimizer) zero["offload_optimizer"] = offload_block(candidate.offload);
  if (candidate.offload.params) zero["offload_param"] = offload_block(candidate.offload);
  if (const auto buffer = larger_buffer(problem.model, candidate)) {
    zero["offload_param"]["buffer_size"] = *buffer;
  }
  return zero;
}

Json configuration(const Problem& problem, const Candidate& candidate, bool probe) {
  Json json = Json::object();
  // Under AutoTP DeepSpeed holds it against all ranks, those of a tensor group among them: source:
  // deepspeedai/DeepSpeed deepspeed/runtime/config.py @ 0.19.8, run.
  if (candidate.tp == 1) json["train_batch_size"] = problem.workload.global_batch;
  json["train_micro_batch_size_per_gpu"] = candidate.micro_batch;
  json["gradient_accumulation_steps"] = accumulation(problem, candidate);
  json["gradient_clipping"] = 1.0;
  json["steps_per_print"] = probe ? 1 : 10;
  json["wall_clock_breakdown"] = probe;
  add_precision(json, problem, candidate);
  json["zero_optimization"] = zero_optimization(problem, candidate);
  add_optimizer(json, problem);
  if (candidate.tp > 1) json["tensor_parallel"] = {{"autotp_size", candidate.tp}};
  if (candidate.recompute.kind == RecomputeKind::full) {
    json["activation_checkpointing"] = activation_checkpointing(candidate);
  }
  return json;
}

std::string optimizer_type(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw:
      return "AdamW";
    case OptimizerKind::lion:
      return "Lion";
    case OptimizerKind::sgd:
      return "SGD";
    default:
      return "";
  }
}

}  // namespace planwright::targets::deepspeed
