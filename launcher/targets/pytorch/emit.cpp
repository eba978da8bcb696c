#include "launcher/targets/pytorch/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/document.h"
#include "launcher/quote.h"
#include "launcher/targets/pytorch/rules.h"
#include "launcher/targets/pytorch/words.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/origin.h"

namespace planwright::targets::pytorch {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

/// litgpt's default, which the estimate does not depend on as long as there is any.
constexpr double kAdapterDropout = 0.05;

constexpr const char* kModelName = "YOUR_MODEL_NAME";

double dropout_of(const Candidate& c) { return drops_adapter_inputs(c) ? kAdapterDropout : 0.0; }

bool adapts(const Problem& problem) { return problem.model.lora.freezes(); }

Json lora_settings(const Problem& problem, const Candidate& c) {
  if (!adapts(problem)) return {};
  const Adapted a = adapted(problem.model.lora);
  return {{"r", problem.model.lora.rank},
          {"query", a.query},
          {"key", a.key},
          {"value", a.value},
          {"projection", a.projection},
          {"mlp", a.mlp},
          {"dropout", dropout_of(c)}};
}

Json settings(const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  Json json{{"schema", "planwright.pytorch/1"},
            {"wrap", c.zero == 3 ? "fsdp"
                     : c.dp > 1  ? "ddp"
                                 : "none"},
            {"precision", precision_word(problem.workload.recipe)},
            {"quantize", quantize_word(problem)},
            {"lora", lora_settings(problem, c)},
            {"lm_head_chunk_size", logit_rows(problem.workload.job)},
            {"checkpoint_blocks", c.recompute.kind == RecomputeKind::full},
            {"micro_batch_size", c.micro_batch},
            {"gradient_accumulation_steps", accumulation(problem, c)},
            {"sequence_length", problem.workload.seq},
            {"optimizer", optimizer_class(problem.workload.optimizer)}};
  if (request.probe) json["max_steps"] = request.steps;
  return json;
}

void add_settings(LaunchConfig& config, const EmitRequest& request) {
  const std::string path = path_of(request, "pytorch_settings.json");
  config.files.push_back({path, settings(request).dump(2) + "\n"});
  config.command = command_of(request, torchrun(request), {"--settings", path});
}

std::string litgpt_command(Job job) {
  if (job == Job::pretrain) return "pretrain";
  return job == Job::finetune ? "finetune_full" : "finetune_lora";
}

void add_adapters(Json& json, const Problem& problem, const Candidate& c) {
  const Adapted a = adapted(problem.model.lora);
  if (problem.workload.serving.weights) json["quantize"] = quantize_word(problem);
  json["lora_r"] = problem.model.lora.rank;
  json["lora_dropout"] = dropout_of(c);
  json["lora_query"] = a.query;
  json["lora_key"] = a.key;
  json["lora_value"] = a.value;
  json["lora_projection"] = a.projection;
  json["lora_mlp"] = a.mlp;
  json["lora_head"] = false;
}

/// litgpt looks for a name without a module among torch's.
std::string optimizer_word(OptimizerKind kind) {
  const std::string name = optimizer_class(kind);
  const std::string torchs = "torch.optim.";
  return name.starts_with(torchs) ? name.substr(torchs.size()) : name;
}

/// As litgpt's commands read it.
Json litgpt_config(const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  Json json = Json::object();
  json["precision"] = precision_word(problem.workload.recipe);
  json["devices"] = problem.cluster.per_node;
  json["num_nodes"] = problem.cluster.nodes;
  if (adapts(problem)) add_adapters(json, problem, c);
  Json train{{"global_batch_size", problem.workload.global_batch},
             {"micro_batch_size", c.micro_batch},
             {"max_seq_length", problem.workload.seq},
             {"log_interval", 1}};
  if (request.probe) train["max_steps"] = request.steps;
  json["train"] = train;
  json["optimizer"] = optimizer_word(problem.workload.optimizer);
  return json;
}

void add_litgpt(LaunchConfig& config, const EmitRequest& request) {
  const Job job = request.plan.problem.workload.job;
  const std::string path = path_of(request, "litgpt_config.yaml");
  config.files.push_back({path, launcher::comment_lines(origin_lines(request)) +
                                    launcher::yaml_text(litgpt_config(request))});
  config.command = {"litgpt", litgpt_command(job)};
  std::vector<std::string> words = user_words(request);
  const char* const place = job == Job::pretrain ? kModelName : kCheckpointPlaceholder;
  if (words.empty()) {
    words = {place};
    config.warnings.push_back(fmt::format(
        "put {} in the place of {}",
        job == Job::pretrain ? "litgpt's name of the model" : "the checkpoint's folder", place));
  }
  config.command.insert(config.command.end(), words.begin(), words.end());
  config.command.insert(config.command.end(), {"--config", path});
  config.warnings.emplace_back(
      "the data are yours to name (--data): as long as its longest sample is shorter, a batch is "
      "shorter than the plan's");
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  LaunchConfig config;
  if (loop_of(request.plan.candidate) == Loop::litgpt) {
    launcher_of(request, {"torchrun"});
    add_litgpt(config, request);
  } else {
    add_settings(config, request);
    config.warnings = adapter_warnings(request);
  }
  return finished(std::move(config), request, {"2.11.0"});
}

}  // namespace planwright::targets::pytorch
