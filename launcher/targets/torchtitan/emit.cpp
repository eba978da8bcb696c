#include "launcher/targets/torchtitan/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/model_part.h"
#include "launcher/document.h"
#include "launcher/quote.h"
#include "launcher/targets/shared/knobs.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/shared/untold.h"
#include "launcher/targets/torchtitan/models.h"
#include "launcher/targets/torchtitan/python_config.h"
#include "launcher/targets/torchtitan/revisions.h"
#include "launcher/targets/torchtitan/rules.h"
#include "launcher/targets/torchtitan/settings.h"

namespace planwright::targets::torchtitan {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

/// The head stays as it is; by tensors is what torchtitan does unless a recipe is named. Without
/// compilation casts are kernels of their own, with copies in fp32. Source: torchtitan
/// components/quantization/float8.py and docs/float8.md @ v0.2.2.
void add_float8(Json& json, const Candidate& c) {
  Json float8{{"filter_fqns", Json::array({"output"})}};
  const std::string recipe = knob_value(c, emitted_knobs(), kFloat8Knob);
  if (recipe != "tensorwise") float8["recipe_name"] = recipe;
  json["model"]["converters"] = Json::array({"quantize.linear.float8"});
  json["quantize"] = {{"linear", {{"float8", float8}}}};
}

/// By itself the loss and the blocks are. Source: torchtitan config/job_config.py, Compile @
/// v0.2.2.
Json compile_section(const Problem& problem, const Candidate& c) {
  const bool loss = compiles_loss(problem, c), blocks = compiles_blocks(problem, c);
  Json json{{"enable", loss || blocks}};
  if (loss != blocks) json["components"] = Json::array({loss ? "loss" : "model"});
  return json;
}

/// Source: torchtitan config/job_config.py, Checkpoint @ v0.2.2.
Json weights_section() {
  return {{"enable", true},
          {"initial_load_path", kCheckpointPlaceholder},
          {"initial_load_in_hf", true}};
}

Json document(const EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  const Flavor flavor = flavor_of(problem.model);
  Json json{{"model", {{"name", flavor.model}, {"flavor", flavor.flavor}}},
            {"training", training(request)},
            {"optimizer", {{"name", "AdamW"}}},
            {"parallelism", parallelism(request)},
            {"activation_checkpoint", activation_checkpoint(candidate)},
            {"compile", compile_section(problem, candidate)},
            {"metrics", {{"log_freq", request.probe ? 1 : 10}}}};
  if (request.probe) json["checkpoint"] = {{"enable", false}};
  if (begins_with_weights(request)) json["checkpoint"] = weights_section();
  if (problem.workload.precision == Precision::fp8) add_float8(json, candidate);
  if (!flavor.shipped) json["experimental"] = {{"custom_import", kRegistrationModule}};
  return json;
}

/// Without a script it is torchtitan's own, and what the user gives are its arguments.
std::vector<std::string> command(const EmitRequest& request,
                                 const std::vector<std::string>& options) {
  return command_with_own_script(request, torchrun(request), {"-m", "torchtitan.train"}, options);
}

/// A module is found where PYTHONPATH says.
void add_module(LaunchConfig& config, const EmitRequest& request, const char* module,
                const std::string& text) {
  config.files.push_back({path_of(request, fmt::format("{}.py", module)), text});
  config.environment["PYTHONPATH"] = path_of(request, "");
  config.warnings.push_back(
      fmt::format("PYTHONPATH is set to the folder of {}.py: add your own folders to it", module));
}

void add_toml(LaunchConfig& config, const EmitRequest& request) {
  const ModelSpec& model = request.plan.problem.model;
  const std::string path = path_of(request, "torchtitan.toml");
  const std::string origin = launcher::comment_lines(origin_lines(request));
  config.files.push_back({path, origin + launcher::toml_text(document(request))});
  config.command = command(request, {"--job.config_file", path});
  if (!flavor_of(model).shipped) {
    add_module(config, request, kRegistrationModule, origin + "\n" + registration(model));
  }
}

void add_python(LaunchConfig& config, const EmitRequest& request) {
  config.command = command(request, {"--module", kConfigModule, "--config", kConfigFunction});
  add_module(config, request, kConfigModule, python_config(request));
}

/// torchtitan counts from the K-th block on, a plan from the first: the blocks are as many only
/// where K divides a stage's.
bool alternates_differently(const Problem& problem, const Candidate& c) {
  if (c.recompute.kind != RecomputeKind::alternate) return false;
  Candidate unrolled = c;
  unrolled.pp *= c.vpp;
  unrolled.vpp = 1;
  for (const std::int64_t layers : stage_layers(problem.model, unrolled)) {
    if (layers % c.recompute.k != 0) return true;
  }
  return false;
}

/// torchtitan's models have no dropout.
void warn_of_model(LaunchConfig& config, const EmitRequest& request) {
  const Problem& problem = request.plan.problem;
  const ModelSpec& model = problem.model;
  const bool registered = !is_python_generation(problem) && !flavor_of(model).shipped;
  std::vector<std::string> all = untold(model, registered);
  if (model.init_std != ModelSpec{}.init_std) {
    all.push_back(fmt::format("initializer_range {}", model.init_std));
  }
  if (problem.workload.hidden_dropout > 0 || problem.workload.attention_dropout > 0) {
    all.push_back(fmt::format("dropout {} of the hidden state, {} of attention",
                              problem.workload.hidden_dropout, problem.workload.attention_dropout));
  }
  warn_of_untold(config, model, std::move(all), "torchtitan");
}

void add_warnings(LaunchConfig& config, const EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  config.warnings.emplace_back(
      "the tokenizer's folder (hf_assets_path), the data set and the learning rate are no part of "
      "a plan: they are torchtitan's defaults until you set them");
  if (begins_with_weights(request)) {
    warn_of_checkpoint(config, "checkpoint.initial_load_path",
                       "Hugging Face's own files, as an absolute path");
  }
  warn_of_model(config, request);
  if (c.attention == AttentionKernel::eager) {
    config.warnings.emplace_back(
        "attention eager is not in these files: torchtitan uses PyTorch's fused attention; target "
        "builtin has eager");
  }
  if (c.loss != LossKernel::plain) {
    config.warnings.push_back(fmt::format(
        "loss {} is not in these files: torchtitan's loss is its model's; target builtin has it",
        word(c.loss)));
  }
  if (alternates_differently(problem, c)) {
    config.warnings.push_back(fmt::format(
        "recompute {} does not divide the blocks of a stage, where torchtitan recomputes one block "
        "fewer than the plan",
        recompute_text(c.recompute)));
  }
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  LaunchConfig config;
  // As torchtitan's own run_train.sh @ v0.2.2 sets it.
  config.environment["PYTORCH_ALLOC_CONF"] = "expandable_segments:True";
  if (is_python_generation(request.plan.problem)) {
    add_python(config, request);
  } else {
    add_toml(config, request);
  }
  add_warnings(config, request);
  return finished(std::move(config), request, {"0.2.2", "0.3.0"});
}

}  // namespace planwright::targets::torchtitan
