#include "launcher/targets/nanotron/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/document.h"
#include "launcher/quote.h"
#include "launcher/targets/nanotron/config.h"
#include "launcher/targets/nanotron/rules.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/shared/untold.h"

namespace planwright::targets::nanotron {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

constexpr const char* kScript = "run_train.py";

/// LlamaConfig has a rope_scaling, which models/llama.py @ 2411b02 does not read.
void warn_of_model(LaunchConfig& config, const ModelSpec& model) {
  std::vector<std::string> untold;
  if (model.rope_scaling) untold.push_back(scaling_text(model));
  warn_of_untold(config, model, std::move(untold), "nanotron's Llama");
}

void add_warnings(LaunchConfig& config, const EmitRequest& request) {
  config.warnings.emplace_back(
      "data, tokenizer and learning rate are no part of a plan: this trains on made-up tokens "
      "until you write them into nanotron.yaml");
  if (request.steps == 0) {
    config.warnings.push_back(fmt::format(
        "the number of steps is no part of a plan: this ends after {} until you write another "
        "into nanotron.yaml",
        kTrialSteps));
  }
  if (begins_with_weights(request)) {
    warn_of_checkpoint(config, "model.init_method.path",
                       "as nanotron saves them, or its examples/llama converts them");
  }
  warn_of_model(config, request.plan.problem.model);
  if (!brings_script(request)) {
    config.warnings.push_back(fmt::format(
        "{} is nanotron's own: start the command in its folder, or give its path behind --",
        kScript));
  }
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  LaunchConfig launch;
  const std::string path = path_of(request, "nanotron.yaml");
  launch.files.push_back({path, launcher::comment_lines(origin_lines(request)) +
                                    launcher::yaml_text(config(request))});
  launch.command =
      command_with_own_script(request, torchrun(request), {kScript}, {"--config-file", path});
  // parallel/utils.py, assert_cuda_max_connections_set_to_1.
  launch.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  add_warnings(launch, request);
  return finished(std::move(launch), request, {"0.4"});
}

}  // namespace planwright::targets::nanotron
