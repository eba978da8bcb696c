#include "launcher/targets/torchtitan/python_config.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/quote.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/torchtitan/models.h"
#include "launcher/targets/torchtitan/settings.h"

namespace planwright::targets::torchtitan {
namespace {

std::string literal(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return launcher::in_quotes(value.get_ref<const std::string&>());
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const Json& each : value) list += (list.empty() ? "" : ", ") + literal(each);
  return "[" + list + "]";
}

std::string call(const char* type, const Json& named) {
  std::string text = fmt::format("{}(\n", type);
  for (const auto& [key, value] : named.items()) {
    text += fmt::format("        {}={},\n", key, literal(value));
  }
  return text + "    )";
}

/// The class of 0.3 for a plan's recompute; empty for none.
const char* recompute_class(const Candidate& candidate) {
  switch (candidate.recompute.kind) {
    case RecomputeKind::full:
      return "FullAC";
    case RecomputeKind::op:
      return "SelectiveAC";
    default:
      return "";
  }
}

std::string imports(const Problem& problem, const char* recompute) {
  std::string text = "from torchtitan.config import ParallelismConfig, TrainingConfig\n";
  if (*recompute != '\0') {
    text += fmt::format("from torchtitan.distributed.activation_checkpoint import {}\n", recompute);
  }
  return text + fmt::format("from torchtitan.models.{}.config_registry import {}\n",
                            model_folder(problem.model), registry_function(problem.model));
}

/// The path must be absolute. Source: torchtitan/components/checkpointer/base.py @ 0.3.0.
std::string checkpoint_lines() {
  return fmt::format(
      "    config.checkpoint.enable = True\n    config.checkpoint.initial_load_in_hf = True\n"
      "    config.checkpoint.initial_load_path = \"/{}\"\n",
      kCheckpointPlaceholder);
}

}  // namespace

std::string python_config(const launcher::EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  const std::string recompute = recompute_class(candidate);
  Json of_training = training(request);
  of_training["disable_cuda_graphs"] = candidate.pp > 1;  // the two exclude each other
  std::string text =
      launcher::comment_lines(origin_lines(request)) + "\n" + imports(problem, recompute.c_str());
  text += fmt::format("\n\ndef {}():\n    config = {}()\n", kConfigFunction,
                      registry_function(problem.model));
  text += "    config.training = " + call("TrainingConfig", of_training) + "\n";
  text += "    config.parallelism = " + call("ParallelismConfig", parallelism(request)) + "\n";
  text += "    config.activation_checkpoint = " +
          (recompute.empty() ? "None" : recompute + ".Config()") + "\n";
  text += fmt::format("    config.metrics.log_freq = {}\n", request.probe ? 1 : 10);
  if (request.probe) text += "    config.checkpoint.enable = False\n";
  if (begins_with_weights(request)) text += checkpoint_lines();
  return text + "    return config\n";
}

}  // namespace planwright::targets::torchtitan
