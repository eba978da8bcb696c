#include "launcher/targets/megatron/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/document.h"
#include "launcher/quote.h"
#include "launcher/targets/megatron/arguments.h"
#include "launcher/targets/megatron/rules.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/shared/untold.h"

namespace planwright::targets::megatron {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

constexpr const char* kScript = "pretrain_gpt.py";

Json all_arguments(const EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  Json all = model_arguments(problem);
  all.update(plan_arguments(problem, candidate));
  all.update(run_arguments(request));
  return all;
}

std::string arguments_file(const EmitRequest& request, const Json& arguments) {
  std::vector<std::string> head = origin_lines(request);
  head.emplace_back(
      "The arguments of launch.sh, for reading and for --diff: Megatron-LM does not "
      "read this file.");
  return launcher::comment_lines(head) + launcher::yaml_text(arguments);
}

void warn_of_model(LaunchConfig& config, const EmitRequest& request) {
  const ModelSpec& model = request.plan.problem.model;
  warn_of_untold(config, model, untold(model), "Megatron-LM");
  if (!model.has_experts() || request.probe || gives(request, {"--moe-aux-loss-coeff"})) return;
  config.warnings.emplace_back(
      "how the router balances its experts is no part of a plan: its auxiliary loss has the "
      "coefficient 0 until --moe-aux-loss-coeff stands behind --");
}

void add_warnings(LaunchConfig& config, const EmitRequest& request, const Json& arguments) {
  if (arguments.contains("mock-data")) {
    config.warnings.emplace_back(
        "data and tokenizer are no part of a plan: this trains on mock data until --data-path and "
        "--tokenizer-type stand behind --");
  }
  if (arguments.contains("train-iters") && request.steps == 0) {
    config.warnings.push_back(fmt::format(
        "the number of iterations is no part of a plan: this ends after {} until --train-iters "
        "stands behind --, with --lr for the learning rate",
        kTrialIterations));
  }
  if (arguments.contains("pretrained-checkpoint")) {
    warn_of_checkpoint(config, "--pretrained-checkpoint",
                       "in Megatron's own format, and of the vocabulary and layout of these "
                       "arguments");
  }
  warn_of_model(config, request);
  if (arguments.contains("fine-grained-activation-offloading")) {
    config.warnings.emplace_back("offload of activations needs Megatron Core 0.16 or later");
  }
  if (!brings_script(request)) {
    config.warnings.push_back(fmt::format(
        "{} is Megatron-LM's own: start the command in its folder, or give its path behind --",
        kScript));
  }
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  const Candidate& candidate = request.plan.candidate;
  const Json arguments = all_arguments(request);
  LaunchConfig config;
  config.files.push_back(
      {path_of(request, "megatron_args.yaml"), arguments_file(request, arguments)});
  config.command =
      command_with_own_script(request, torchrun(request), {kScript}, words_of(arguments));
  // megatron/training/arguments.py demands it of tensor and context ranks before Blackwell, and
  // refuses it with Megatron-FSDP.
  const bool in_order = candidate.tp > 1 || candidate.cp > 1;
  if (in_order && !is_fsdp(candidate)) config.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  // The same file demands it with Transformer Engine from 2.10 on, which would offload weights too.
  if (candidate.offload.activations) config.environment["NVTE_CPU_OFFLOAD_V1"] = "1";
  add_warnings(config, request, arguments);
  return finished(std::move(config), request, {"0.14.0", "0.19.2"});
}

}  // namespace planwright::targets::megatron
