#include "launcher/targets/shared/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "estimator/spec/error.h"
#include "estimator/spec/rules.h"
#include "launcher/placeholders.h"
#include "launcher/shell.h"
#include "launcher/targets/shared/origin.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets {
namespace {

namespace fs = std::filesystem;
using launcher::EmitRequest;
using launcher::LaunchConfig;

std::string not_an_option(const std::string& path) {
  return path.starts_with('-') ? "./" + path : path;
}

bool has_several_nodes(const EmitRequest& request) {
  return request.plan.problem.cluster.nodes > 1;
}

/// A version without its last part: "0.19" of "0.19.8".
std::string series(const std::string& version) { return version.substr(0, version.rfind('.')); }

void warn_of_version(LaunchConfig& config, const Problem& problem,
                     const std::vector<std::string>& checked) {
  const bool known = std::any_of(checked.begin(), checked.end(), [&](const std::string& each) {
    return series(each) == series(problem.target_version);
  });
  if (known) return;
  config.warnings.push_back(
      fmt::format("these files were checked with {} {}, and the plan is for {}: names and defaults "
                  "may differ",
                  problem.target, join_words(checked),
                  problem.target_version.empty() ? "no version" : problem.target_version));
}

/// Relative as long as folder and files can be moved together.
std::string start_of(const EmitRequest& request) {
  if (request.folder.empty()) return "";
  const fs::path folder = request.folder;
  const fs::path up = folder.lexically_relative((folder / request.out).lexically_normal());
  const bool is_above = !up.empty() && std::all_of(up.begin(), up.end(), [](const fs::path& part) {
    return part == "." || part == "..";
  });
  return is_above ? up.string() : request.folder;
}

}  // namespace

void require_expressible(const EmitRequest& request, const std::vector<Rule>& rules) {
  const auto& [problem, candidate, evidence] = request.plan;
  std::vector<Rule> all = rules;
  for (Rule& rule : shape_rules()) all.push_back(std::move(rule));
  const Rule* broken = first_broken(all, problem, candidate);
  if (broken == nullptr) return;
  throw InputError({request.source, "candidate", describe(candidate),
                    reason_text(explain(*broken, problem, candidate)), ""});
}

std::string path_of(const EmitRequest& request, const std::string& name) {
  return not_an_option((fs::path(request.out) / name).string());
}

NamedValues values_of(const EmitRequest& request) {
  NamedValues values = named_values(request.plan.problem, request.plan.candidate);
  values.emplace_back(launcher::kStepsName, request.steps == 0 ? launcher::kStepsPlaceholder
                                                               : std::to_string(request.steps));
  return values;
}

std::vector<std::string> user_words(const EmitRequest& request) {
  const NamedValues values = values_of(request);
  std::vector<std::string> words;
  for (const std::string& word : request.user.words) {
    try {
      words.push_back(launcher::filled(word, values));
    } catch (const std::out_of_range& unknown) {
      std::vector<std::string> names;
      for (const auto& [name, value] : values) names.emplace_back(name);
      throw InputError({request.source, word, "",
                        fmt::format("has {{{0}}}, which is nothing that can be filled in (for "
                                    "these very letters write {{{{{0}}}}})",
                                    unknown.what()),
                        nearest_word(unknown.what(), names, "{", "}")});
    }
  }
  return words;
}

std::string script_of(const EmitRequest& request) {
  const std::vector<std::string> words = user_words(request);
  return words.empty() ? kScriptPlaceholder : not_an_option(words.front());
}

std::string launcher_of(const EmitRequest& request, const std::vector<std::string>& known) {
  const std::string& asked = request.user.launcher;
  if (asked.empty()) return "torchrun";
  if (std::find(known.begin(), known.end(), asked) != known.end()) return asked;
  throw InputError({request.source, "--launcher", asked,
                    fmt::format("does not start target {} in this version: {} does",
                                request.plan.problem.target, join_words(known)),
                    nearest_word(asked, known)});
}

std::vector<std::string> torchrun(const EmitRequest& request) {
  launcher_of(request, {"torchrun"});
  const ClusterSpec& cluster = request.plan.problem.cluster;
  const std::string per_node = fmt::format("--nproc-per-node={}", cluster.per_node);
  if (!has_several_nodes(request)) return {"torchrun", "--standalone", per_node};
  return {"torchrun",
          fmt::format("--nnodes={}", cluster.nodes),
          per_node,
          "--rdzv-backend=c10d",
          fmt::format("--rdzv-endpoint={}:{}", kHeadNodePlaceholder, kPort),
          fmt::format("--rdzv-id=planwright-{}", candidate_hash(request.plan.candidate))};
}

std::vector<std::string> command_of(const EmitRequest& request, std::vector<std::string> front,
                                    const std::vector<std::string>& options) {
  front.push_back(script_of(request));
  front.insert(front.end(), options.begin(), options.end());
  const std::vector<std::string> words = user_words(request);
  if (!words.empty()) front.insert(front.end(), words.begin() + 1, words.end());
  return front;
}

bool brings_script(const EmitRequest& request) {
  const std::vector<std::string>& words = request.user.words;
  return !words.empty() && !words.front().starts_with("--");
}

std::vector<std::string> command_with_own_script(const EmitRequest& request,
                                                 std::vector<std::string> front,
                                                 const std::vector<std::string>& own,
                                                 const std::vector<std::string>& options) {
  if (brings_script(request)) return command_of(request, std::move(front), options);
  front.insert(front.end(), own.begin(), own.end());
  front.insert(front.end(), options.begin(), options.end());
  const std::vector<std::string> words = user_words(request);
  front.insert(front.end(), words.begin(), words.end());
  return front;
}

void warn_of_nvme(LaunchConfig& config, const Candidate& candidate) {
  if (candidate.offload == Offload{} || candidate.offload.to != OffloadTo::nvme) return;
  config.warnings.push_back(
      fmt::format("put your disk's folder in the place of {}", kNvmePlaceholder));
}

bool begins_with_weights(const EmitRequest& request) {
  return !request.probe && request.plan.problem.workload.job != Job::pretrain;
}

void warn_of_checkpoint(LaunchConfig& config, const std::string& setting,
                        const std::string& format) {
  config.warnings.push_back(
      fmt::format("put the folder of the weights that training begins with in the place of {} "
                  "({}): {}",
                  kCheckpointPlaceholder, setting, format));
}

/// Rank, modules, and what the plan says of how peft makes them: "rank 8, on q_proj and v_proj".
std::string adapters_text(const EmitRequest& request) {
  const LoraSpec& lora = request.plan.problem.model.lora;
  std::vector<std::string> modules;
  for (const LoraTarget each : lora.targets) modules.emplace_back(word(each));
  std::string text = fmt::format("rank {}", lora.rank);
  if (!modules.empty()) text += fmt::format(", on {}", fmt::join(modules, ", "));
  for (const auto& [knob, value] : request.plan.candidate.knobs) {
    if (is_of_adapters(knob)) text += fmt::format("; {} {}", knob, value);
  }
  return text;
}

std::vector<std::string> adapter_warnings(const EmitRequest& request) {
  const Problem& problem = request.plan.problem;
  if (!problem.model.lora.freezes() && problem.workload.job != Job::qlora) return {};
  return {fmt::format("job {} is not in these files: the adapters ({}) are made by your script",
                      word(problem.workload.job), adapters_text(request))};
}

std::vector<std::string> user_code_warnings(const EmitRequest& request) {
  const Candidate& candidate = request.plan.candidate;
  std::vector<std::string> warnings = adapter_warnings(request);
  if (candidate.attention == AttentionKernel::eager) {
    warnings.emplace_back(
        "attention eager is not in these files: load the model with attn_implementation=\"eager\"");
  }
  if (candidate.loss != LossKernel::plain && !uses_liger(candidate)) {
    warnings.push_back(fmt::format(
        "loss {} is not in these files: the loss is your script's; target builtin has it as a flag",
        word(candidate.loss)));
  }
  return warnings;
}

void add_environment(LaunchConfig& config, const EmitRequest& request) {
  const Problem& problem = request.plan.problem;
  if (problem.cluster.device.kind == DeviceKind::cpu) {
    config.environment["OMP_NUM_THREADS"] = std::to_string(problem.cluster.threads_per_rank);
  }
  for (const auto& [name, value] : request.user.environment) {
    const auto [set, added] = config.environment.emplace(name, value);
    if (added || set->second == value) continue;
    throw InputError({request.source, "environment", fmt::format("{}={}", name, value),
                      fmt::format("contradicts the plan, with which target {} sets it to {}",
                                  problem.target, set->second),
                      ""});
  }
}

launcher::EmittedFile launch_script(const EmitRequest& request, const std::string& name,
                                    const std::vector<std::string>& command,
                                    const LaunchConfig& config) {
  launcher::ScriptPaths paths{start_of(request), {path_of(request, "")}, "plan.json"};
  for (const launcher::EmittedFile& file : config.files) paths.beside.push_back(file.path);
  return {path_of(request, name),
          launcher::shell_script(origin_lines(request), command, config.environment, paths), true};
}

/// "4.45", "2024-03".
bool is_version(const std::string& value) {
  const bool digit = !value.empty() && value[0] >= '0' && value[0] <= '9';
  return digit && value.find_first_of(".-") != std::string::npos;
}

/// A knob whose values are versions is of what runs; files are as the target's version has them.
void warn_of_other_versions(LaunchConfig& config, const EmitRequest& request) {
  const Problem& problem = request.plan.problem;
  for (const auto& [knob, value] : request.plan.candidate.knobs) {
    if (!is_version(value)) continue;
    config.warnings.push_back(
        fmt::format("the plan is of {} {}, which is yours to install: these files are written for "
                    "{} {}, and an earlier version may not take their words",
                    knob, value, problem.target, problem.target_version));
  }
}

LaunchConfig finished(LaunchConfig config, const EmitRequest& request,
                      const std::vector<std::string>& checked) {
  add_environment(config, request);
  warn_of_version(config, request.plan.problem, checked);
  warn_of_other_versions(config, request);
  if (request.user.words.empty() &&
      config.command.end() !=
          std::find(config.command.begin(), config.command.end(), kScriptPlaceholder)) {
    config.warnings.push_back(
        fmt::format("put your training script in the place of {}", kScriptPlaceholder));
  }
  if (request.steps == 0 && launcher::names_placeholder(request.user, launcher::kStepsName)) {
    config.warnings.push_back(
        fmt::format("{{steps}} is no part of a plan: give --steps N, or put the steps that you "
                    "train in the place of {}",
                    launcher::kStepsPlaceholder));
  }
  if (has_several_nodes(request)) {
    config.warnings.push_back(
        fmt::format("put the first node's name in the place of {}, and start the command on each "
                    "of the {} nodes",
                    kHeadNodePlaceholder, request.plan.problem.cluster.nodes));
  }
  config.evidence = request.plan.evidence.kind;
  if (config.evidence == launcher::EvidenceKind::predicted) {
    config.warnings.emplace_back("this plan is predicted, not measured");
  }
  config.files.push_back(launch_script(request, "launch.sh", config.command, config));
  config.files.push_back(
      {path_of(request, "plan.json"), plan_file_json(request.plan, request.user).dump(2) + "\n"});
  config.files.push_back({path_of(request, "origin.json"), origin_json(request, config)});
  return config;
}

}  // namespace planwright::targets
