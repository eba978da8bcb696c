#include "launcher/targets/accelerate/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "launcher/document.h"
#include "launcher/quote.h"
#include "launcher/targets/accelerate/rules.h"
#include "launcher/targets/deepspeed/config.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/fsdp1.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/loading.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/shared/torch_words.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::accelerate {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

bool uses_fsdp(const Candidate& c) { return engine_of(c) != Engine::deepspeed && c.zero >= 2; }

Sharder sharder_of(const Candidate& c) {
  if (engine_of(c) == Engine::deepspeed) return Sharder::deepspeed;
  return uses_fsdp(c) ? Sharder::fsdp : Sharder::none;
}

const char* distributed_type(const Problem& problem, const Candidate& candidate) {
  if (engine_of(candidate) == Engine::deepspeed) return "DEEPSPEED";
  if (uses_fsdp(candidate)) return "FSDP";
  const bool cpu = problem.cluster.device.kind == DeviceKind::cpu;
  if (problem.cluster.devices() == 1) return "NO";
  return cpu ? "MULTI_CPU" : "MULTI_GPU";
}

std::string mixed_precision(const Problem& problem, const Candidate& candidate) {
  const DType compute = problem.workload.recipe.compute;
  return compute == DType::fp32 || !autocasts(candidate) ? "no" : std::string(word(compute));
}

/// num_processes is the total over all nodes.
Json topology(const Problem& problem, const Candidate& candidate) {
  const ClusterSpec& cluster = problem.cluster;
  Json json{{"compute_environment", "LOCAL_MACHINE"},
            {"distributed_type", distributed_type(problem, candidate)},
            {"mixed_precision", mixed_precision(problem, candidate)},
            {"num_machines", cluster.nodes},
            {"num_processes", cluster.devices()},
            {"machine_rank", 0}};
  if (cluster.nodes > 1) {  // c10d gives the ranks out, so that the file is the same on each node
    json["rdzv_backend"] = "c10d";
    json["same_network"] = false;
    json["main_process_ip"] = kHeadNodePlaceholder;
    json["main_process_port"] = kPort;
  }
  json["use_cpu"] = cluster.device.kind == DeviceKind::cpu;
  return json;
}

/// The wrapped class is left to the model's own _no_split_modules, as Hugging Face's models have.
Json common_fsdp(const Candidate& c, int version) {
  return {{"fsdp_version", version},
          {"fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
          {"fsdp_offload_params", c.offload.params},
          {"fsdp_cpu_ram_efficient_loading", true},
          {"fsdp_activation_checkpointing", c.recompute.kind == RecomputeKind::full}};
}

Json fsdp1_block(const Candidate& c) {
  Json json = common_fsdp(c, 1);
  const bool whole = c.zero == 3;
  json["fsdp_sharding_strategy"] = c.hsdp > 1 ? (whole ? "HYBRID_SHARD" : "HYBRID_SHARD_ZERO2")
                                              : (whole ? "FULL_SHARD" : "SHARD_GRAD_OP");
  json["fsdp_backward_prefetch"] = prefetch_word(c);
  json["fsdp_forward_prefetch"] = false;
  json["fsdp_use_orig_params"] = true;
  json["fsdp_sync_module_states"] = true;
  json["fsdp_state_dict_type"] = "FULL_STATE_DICT";
  return json;
}

Json fsdp2_block(const Candidate& c) {
  Json json = common_fsdp(c, 2);
  json["fsdp_reshard_after_forward"] = c.zero == 3;
  json["fsdp_state_dict_type"] = "SHARDED_STATE_DICT";
  return json;
}

Json parallelism_block(const Candidate& c) {
  return {{"parallelism_config_dp_replicate_size", c.hsdp},
          {"parallelism_config_dp_shard_size", shard_ranks(c)},
          {"parallelism_config_tp_size", c.tp},
          {"parallelism_config_cp_size", c.cp}};
}

Json deepspeed_block(const Problem& problem, const Candidate& c) {
  const auto device = [&](bool offloaded) {
    return offloaded ? std::string(word(c.offload.to)) : "none";
  };
  Json json{{"zero_stage", c.zero},
            {"gradient_accumulation_steps", accumulation(problem, c)},
            {"gradient_clipping", 1.0},
            {"offload_optimizer_device", device(c.offload.optimizer)},
            {"offload_param_device", device(c.offload.params)},
            {"zero3_init_flag", c.zero == 3},
            {"zero3_save_16bit_model", c.zero == 3}};
  if (c.offload.to == OffloadTo::nvme) {
    json["offload_optimizer_nvme_path"] = kNvmePlaceholder;
    json["offload_param_nvme_path"] = kNvmePlaceholder;
  }
  if (problem.cluster.nodes > 1) json["deepspeed_multinode_launcher"] = "standard";
  return json;
}

Json document(const Problem& problem, const Candidate& c) {
  Json json = topology(problem, c);
  if (engine_of(c) == Engine::deepspeed) {
    json["deepspeed_config"] = deepspeed_block(problem, c);
  } else if (uses_fsdp(c)) {
    const bool second = engine_of(c) == Engine::fsdp2;
    json["fsdp_config"] = second ? fsdp2_block(c) : fsdp1_block(c);
    if (second && (c.tp > 1 || c.cp > 1 || c.hsdp > 1)) {
      json["parallelism_config"] = parallelism_block(c);
    }
  }
  return json;
}

/// Whatever the file says of CPUs, `accelerate launch` starts one process on them. torchrun starts
/// several, which have the file's settings from their environment. Source: accelerate
/// commands/launch.py, launch_command, and state.py, _prepare_backend @ v1.15.0.
void set_command(LaunchConfig& config, const EmitRequest& request, const std::string& path) {
  const auto& [problem, c, evidence] = request.plan;
  if (std::string_view("MULTI_CPU") != distributed_type(problem, c)) {
    config.command = command_of(request, {"accelerate", "launch", "--config_file", path}, {});
    return;
  }
  config.command = command_of(request, torchrun(request), {});
  config.environment["ACCELERATE_USE_CPU"] = "true";
  config.environment["ACCELERATE_MIXED_PRECISION"] = mixed_precision(problem, c);
}

void add_script_warnings(LaunchConfig& config, const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  config.warnings.push_back(
      fmt::format("micro-batch {} and sequence {} are not in this file: they are your DataLoader's",
                  c.micro_batch, problem.workload.seq));
  config.warnings.push_back(fmt::format("optimizer {} is not in this file: your script makes it",
                                        word(problem.workload.optimizer)));
  // Source: huggingface/accelerate src/accelerate/accelerator.py, accumulate @ v1.15.0.
  if (accumulation(problem, c) > 1) {
    config.warnings.push_back(
        fmt::format("{} micro-batches make a step only if each of them, with optimizer.step(), "
                    "stands under `with accelerator.accumulate(model)` in your script",
                    accumulation(problem, c)));
  }
  if (c.recompute.kind == RecomputeKind::full && !uses_fsdp(c)) {
    config.warnings.emplace_back(
        "recompute full is in this file only under FSDP: call gradient_checkpointing_enable() in "
        "your script, or use target hf-trainer");
  }
}

void add_model_warnings(LaunchConfig& config, const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  if (!uses_fsdp(c) && engine_of(c) != Engine::deepspeed) {
    config.warnings.push_back(load_warning(problem, Sharder::none));
  }
  if (c.tp > 1) {
    config.warnings.push_back(fmt::format(
        "tp {} needs a model loaded with tp_plan=\"auto\" and the mesh of the Accelerator", c.tp));
  }
  if (c.cp > 1) {
    config.warnings.push_back(fmt::format(
        "cp {} needs the step under accelerator.maybe_context_parallel in your script", c.cp));
  }
  for (std::string& each : loading_warnings(problem, c, sharder_of(c))) {
    config.warnings.push_back(std::move(each));
  }
  warn_of_format(config, problem);
  warn_of_nvme(config, c);
  if (const auto buffer = deepspeed::larger_buffer(problem.model, c)) {
    config.warnings.push_back(fmt::format(
        "a rank's part of the largest weight has {} elements, and DeepSpeed's buffers {}: give "
        "Accelerate a deepspeed_config_file with buffer_size in offload_param",
        *buffer, deepspeed::kUsualBuffer));
  }
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  const auto& [problem, candidate, evidence] = request.plan;
  LaunchConfig config;
  const std::string path = path_of(request, "accelerate.yaml");
  config.files.push_back({path, launcher::comment_lines(origin_lines(request)) +
                                    launcher::yaml_text(document(problem, candidate))});
  set_command(config, request, path);
  // Read by Accelerator() whatever the engine.
  config.environment["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] =
      std::to_string(accumulation(problem, candidate));
  config.warnings = user_code_warnings(request);
  add_script_warnings(config, request);
  add_model_warnings(config, request);
  return finished(std::move(config), request, {"1.15.0"});
}

}  // namespace planwright::targets::accelerate
