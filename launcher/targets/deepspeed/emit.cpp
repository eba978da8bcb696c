#include "launcher/targets/deepspeed/emit.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/quote.h"
#include "launcher/targets/deepspeed/config.h"
#include "launcher/targets/deepspeed/rules.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/origin.h"

namespace planwright::targets::deepspeed {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

/// The script is not given --local_rank, as it is not by torchrun.
std::vector<std::string> own_launcher(const EmitRequest& request) {
  const ClusterSpec& cluster = request.plan.problem.cluster;
  const std::string ranks = fmt::format("--num_gpus={}", cluster.per_node);
  if (cluster.nodes == 1) return {"deepspeed", ranks, "--no_local_rank"};
  return {"deepspeed",
          "--hostfile",
          path_of(request, "hostfile"),
          fmt::format("--num_nodes={}", cluster.nodes),
          ranks,
          fmt::format("--master_addr={}", kHeadNodePlaceholder),
          fmt::format("--master_port={}", kPort),
          "--no_local_rank"};
}

std::string hostfile(const EmitRequest& request) {
  const ClusterSpec& cluster = request.plan.problem.cluster;
  std::string text = launcher::comment_lines(origin_lines(request));
  for (int node = 0; node < cluster.nodes; ++node) {
    const std::string name = node == 0 ? kHeadNodePlaceholder : fmt::format("NODE_{}", node);
    text += fmt::format("{} slots={}\n", name, cluster.per_node);
  }
  return text;
}

void add_model_warnings(LaunchConfig& config, const EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  if (candidate.recompute.kind == RecomputeKind::full) {
    config.warnings.emplace_back(
        "recompute full: activation_checkpointing acts only on models that call "
        "deepspeed.checkpointing.checkpoint; others, Hugging Face's among them, must switch it on "
        "in the script (gradient_checkpointing_enable)");
  }
  if (candidate.tp > 1) {
    config.warnings.push_back(fmt::format(
        "tp {}: AutoTP needs the same batch on all ranks of a tensor group, which is your data "
        "loader's to give",
        candidate.tp));
  }
}

void add_state_warnings(LaunchConfig& config, const EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  const Workload& job = problem.workload;
  if (optimizer_type(job.optimizer).empty()) {
    config.warnings.push_back(fmt::format(
        "optimizer {} is not in this file: give it to deepspeed.initialize", word(job.optimizer)));
  } else {
    config.warnings.emplace_back(
        "the learning rate is no part of a plan: set optimizer.params.lr, else it is DeepSpeed's "
        "default");
  }
  if (candidate.zero == 0 &&
      job.recipe.summed.value_or(job.recipe.gradient) != job.recipe.compute) {
    config.warnings.push_back(fmt::format("at zero 0 DeepSpeed sums micro-batches in {}, not in {}",
                                          word(job.recipe.compute), word(job.recipe.gradient)));
  }
  warn_of_nvme(config, candidate);
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  const auto& [problem, candidate, evidence] = request.plan;
  LaunchConfig config;
  const std::string path = path_of(request, "ds_config.json");
  const std::vector<std::string> options{"--deepspeed", "--deepspeed_config", path};
  config.files.push_back({path, configuration(problem, candidate, request.probe).dump(2) + "\n"});
  const bool own = launcher_of(request, {"torchrun", "deepspeed"}) == "deepspeed";
  EmitRequest with_torchrun = request;
  with_torchrun.user.launcher.clear();
  config.command =
      command_of(request, own ? own_launcher(request) : torchrun(with_torchrun), options);
  if (problem.cluster.device.kind == DeviceKind::cpu) config.environment["DS_ACCELERATOR"] = "cpu";

  if (problem.cluster.nodes > 1) {
    config.files.push_back({path_of(request, "hostfile"), hostfile(request)});
  }
  add_environment(config, request);
  config.files.push_back(launch_script(
      request, "launch_deepspeed.sh", command_of(request, own_launcher(request), options), config));
  config.warnings = user_code_warnings(request);
  add_model_warnings(config, request);
  add_state_warnings(config, request);
  return finished(std::move(config), request, {"0.19.8"});
}

}  // namespace planwright::targets::deepspeed
