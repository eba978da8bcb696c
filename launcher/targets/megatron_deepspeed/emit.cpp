#include "launcher/targets/megatron_deepspeed/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/document.h"
#include "launcher/quote.h"
#include "launcher/targets/megatron_deepspeed/arguments.h"
#include "launcher/targets/megatron_deepspeed/rules.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/shared/untold.h"

namespace planwright::targets::megatron_deepspeed {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

constexpr const char* kScript = "pretrain_gpt.py";

std::string arguments_file(const EmitRequest& request, const Json& arguments) {
  std::vector<std::string> head = origin_lines(request);
  head.emplace_back(
      "The arguments of launch.sh, for reading and for --diff: pretrain_gpt.py does not read this "
      "file.");
  return launcher::comment_lines(head) + launcher::yaml_text(arguments);
}

bool is_of_other_fork(const Json& arguments) {
  for (const char* each :
       {"num-key-value-heads", "use-rotary-position-embeddings", "normalization", "swiglu",
        "disable-bias-linear", "untie-embeddings-and-output-weights", "use-flash-attn-v2"}) {
    if (arguments.contains(each)) return true;
  }
  return false;
}

void add_warnings(LaunchConfig& config, const EmitRequest& request, const Json& arguments) {
  config.warnings.emplace_back(
      "data and tokenizer are no part of a plan: give --data-path, --vocab-file and --merge-file, "
      "or a tokenizer of your own, behind --");
  if (arguments.contains("train-iters") && request.steps == 0) {
    config.warnings.push_back(fmt::format(
        "the number of iterations is no part of a plan: this ends after {} until --train-iters "
        "stands behind --, with --lr for the learning rate",
        kTrialIterations));
  }
  if (arguments.contains("load")) {
    warn_of_checkpoint(config, "--load",
                       "in Megatron-DeepSpeed's own format; without --finetune it goes on where a "
                       "run has ended");
  }
  const ModelSpec& model = request.plan.problem.model;
  warn_of_untold(config, model, untold(model), "Megatron-DeepSpeed");
  if (is_of_other_fork(arguments)) {
    config.warnings.emplace_back(
        "some of these arguments are of Microsoft's fork of Megatron-DeepSpeed, not of "
        "BigScience's: grouped heads, rotary positions, RMSNorm, SwiGLU, no biases, an untied head "
        "or flash "
        "attention");
  }
  if (!brings_script(request)) {
    config.warnings.push_back(fmt::format(
        "{} is Megatron-DeepSpeed's own: start the command in its folder, or give its path behind "
        "--",
        kScript));
  }
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  const auto& [problem, candidate, evidence] = request.plan;
  const Json all = arguments(request);
  LaunchConfig config;
  config.files.push_back(
      {path_of(request, "megatron_deepspeed_args.yaml"), arguments_file(request, all)});
  const std::string path = path_of(request, "ds_config.json");
  config.files.push_back({path, configuration(problem, candidate, request.probe).dump(2) + "\n"});
  std::vector<std::string> options = words_of(all);
  options.insert(options.end(), {"--deepspeed", "--deepspeed_config", path});
  config.command = command_with_own_script(request, torchrun(request), {kScript}, options);
  add_warnings(config, request, all);
  return finished(std::move(config), request, {"0.5.10"});
}

}  // namespace planwright::targets::megatron_deepspeed
