#include "launcher/targets/hf_trainer/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/document.h"
#include "launcher/quote.h"
#include "launcher/targets/deepspeed/config.h"
#include "launcher/targets/hf_trainer/rules.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/fsdp1.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/loading.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/shared/torch_words.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::hf_trainer {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

bool uses_fsdp(const Candidate& c) { return engine_of(c) != Engine::deepspeed && c.zero > 0; }
bool uses_deepspeed(const Candidate& c) { return engine_of(c) == Engine::deepspeed; }

Sharder sharder_of(const Candidate& c) {
  return uses_deepspeed(c) ? Sharder::deepspeed : uses_fsdp(c) ? Sharder::fsdp : Sharder::none;
}

/// Source: transformers training_args.py, OptimizerNames @ v5.23.0. bitsandbytes' 8-bit Adam does
/// not step sharded tensors, torchao's does.
const char* optim(OptimizerKind kind, const Candidate& c) {
  switch (kind) {
    case OptimizerKind::adamw:
      return fuses_adamw(c) ? "adamw_torch_fused" : "adamw_torch";
    case OptimizerKind::adam8bit:
      return uses_fsdp(c) ? "adamw_torch_8bit" : "adamw_bnb_8bit";
    case OptimizerKind::paged_adam8bit:
      return "paged_adamw_8bit";
    case OptimizerKind::adafactor:
      return "adafactor";
    case OptimizerKind::lion:
      return "lion_32bit";
    case OptimizerKind::sgd:
      return "sgd";
  }
  return "";
}

/// FSDP's own checkpointing takes the place of the Trainer's, where that is not reentrant.
bool checkpoints_itself(const Candidate& c) {
  return c.recompute.kind == RecomputeKind::full && uses_fsdp(c) && !checkpoints_reentrantly(c);
}

/// FSDP1 has names for whether it reshards. Source: transformers training_args.py @ v5.23.0.
Json fsdp_config(const Candidate& c) {
  const bool second = engine_of(c) == Engine::fsdp2;
  const char* strategy = c.zero == 3 ? "full_shard" : "shard_grad_op";
  Json json{{"version", second ? 2 : 1},
            {"reshard_after_forward", second ? Json(c.zero == 3) : Json(strategy)},
            {"auto_wrap_policy", "TRANSFORMER_BASED_WRAP"},
            {"cpu_offload", c.offload.params},
            {"cpu_ram_efficient_loading", true},
            {"state_dict_type", "SHARDED_STATE_DICT"},
            {"activation_checkpointing", checkpoints_itself(c)}};
  if (!second) json["backward_prefetch"] = prefetch_word(c);
  return json;
}

/// What the Trainer sets as well is "auto", so that there is one place to change it.
Json deepspeed_config(const Problem& problem, const Candidate& c) {
  Json json{{"train_batch_size", "auto"},
            {"train_micro_batch_size_per_gpu", "auto"},
            {"gradient_accumulation_steps", "auto"},
            {"gradient_clipping", "auto"},
            {"bf16", {{"enabled", "auto"}}},
            {"fp16", {{"enabled", "auto"}}},
            {"zero_optimization", deepspeed::zero_optimization(problem, c)}};
  if (problem.workload.optimizer == OptimizerKind::adamw) {
    Json params;
    for (const char* each : {"lr", "betas", "eps", "weight_decay"}) params[each] = "auto";
    json["optimizer"] = {{"type", "AdamW"}, {"params", params}};
    if (problem.cluster.device.kind == DeviceKind::cpu) {
      json["optimizer"]["params"]["torch_adam"] = true;
    }
  }
  if (problem.cluster.device.kind == DeviceKind::cpu) json["zero_allow_untested_optimizer"] = true;
  return json;
}

Json arguments(const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  const DType compute = problem.workload.recipe.compute;
  Json json{
      {"per_device_train_batch_size", c.micro_batch},
      {"gradient_accumulation_steps", accumulation(problem, c)},
      {"bf16", autocasts(c) && compute == DType::bf16},
      {"fp16", autocasts(c) && compute == DType::fp16},
      {"gradient_checkpointing", c.recompute.kind == RecomputeKind::full && !checkpoints_itself(c)},
      {"optim", optim(problem.workload.optimizer, c)},
      {"max_grad_norm", 1.0},
      {"logging_steps", request.probe ? 1 : 10}};
  if (uses_liger(c)) json["use_liger_kernel"] = true;
  if (c.offload.activations) json["activation_offloading"] = true;
  if (problem.cluster.device.kind == DeviceKind::cpu) {
    json["use_cpu"] = true;
    json["ddp_backend"] = "gloo";
  }
  if (request.probe) {
    json["max_steps"] = request.steps;
    json["save_strategy"] = "no";
    json["report_to"] = "none";
  }
  return json;
}

/// `fsdp` takes no word behind it: `true` would be read as the name of a strategy. Source:
/// transformers training_args.py, _apply_legacy_fsdp_to_config @ v5.23.0.
std::vector<std::string> options(const Json& arguments) {
  std::vector<std::string> words;
  for (const auto& [key, value] : arguments.items()) {
    words.push_back("--" + key);
    if (key == "fsdp") continue;
    words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return words;
}

void add_files(LaunchConfig& config, const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  Json file = arguments(request);
  Json line = file;
  if (uses_fsdp(c)) {
    const std::string path = path_of(request, "fsdp_config.json");
    config.files.push_back({path, fsdp_config(c).dump(2) + "\n"});
    file["fsdp"] = line["fsdp"] = true;
    file["fsdp_config"] = fsdp_config(c);
    line["fsdp_config"] = path;
  }
  if (uses_deepspeed(c)) {
    const std::string path = path_of(request, "ds_config.json");
    config.files.push_back({path, deepspeed_config(problem, c).dump(2) + "\n"});
    file["deepspeed"] = line["deepspeed"] = path;
  }
  config.files.insert(config.files.begin(),
                      {path_of(request, "training_arguments.yaml"),
                       launcher::comment_lines(origin_lines(request)) + launcher::yaml_text(file)});
  config.command = command_of(request, torchrun(request), options(line));
}

void add_warnings(LaunchConfig& config, const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  config.warnings = user_code_warnings(request);
  config.warnings.push_back(fmt::format(
      "sequence {} is not among the Trainer's arguments: it is your data's, or max_length of trl's "
      "SFTConfig",
      problem.workload.seq));
  if (c.offload.activations) {
    config.warnings.emplace_back(
        "activation_offloading is an argument of trl's SFTConfig, which your script parses in "
        "place "
        "of TrainingArguments");
  }
  if (c.zero == 0) {
    config.warnings.push_back(load_warning(problem, Sharder::none));
  }
  warn_of_format(config, problem);
  if (uses_unsloth(c)) {
    config.warnings.emplace_back("Unsloth's kernels are your script's to put in");
  }
  if (c.zero == 3 && uses_deepspeed(c)) {
    config.warnings.emplace_back(
        "zero 3: make TrainingArguments before the model is loaded, else each rank loads all of "
        "it");
  }
  for (std::string& each : loading_warnings(problem, c, sharder_of(c))) {
    config.warnings.push_back(std::move(each));
  }
  warn_of_nvme(config, c);
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  const Problem& problem = request.plan.problem;
  LaunchConfig config;
  add_files(config, request);
  if (problem.cluster.device.kind == DeviceKind::cpu && uses_deepspeed(request.plan.candidate)) {
    config.environment["DS_ACCELERATOR"] = "cpu";
  }
  add_warnings(config, request);
  return finished(std::move(config), request, {"5.23.0"});
}

}  // namespace planwright::targets::hf_trainer
