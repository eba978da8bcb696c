#include "cli/problem_input.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/candidate_input.h"
#include "cli/cluster_input.h"
#include "cli/command_input.h"
#include "cli/lora_input.h"
#include "cli/signals.h"
#include "cli/sizes.h"
#include "cli/targets.h"
#include "cli/workload_input.h"
#include "estimator/models.h"
#include "estimator/spec/soundness.h"

namespace planwright::cli {
namespace {

constexpr const char* kStandIn = "smollm-135m";
/// A framework may compile kernels before its first step, and says nothing meanwhile.
constexpr double kFrameworkSilence_s = 300;

/// Something like a language model, whose size and work are learned from the first probe on.
ModelSpec stand_in_model() {
  ModelSpec model = estimator::find_model(kStandIn, "", "");
  model.name = "an unknown model";
  model.stand_in = true;
  return model;
}

ModelSpec read_model(const Settings& settings, const TargetTraits& traits) {
  const Setting* model = settings.find(Table::model, "model");
  if (model == nullptr && traits.name == kCommandTarget) return stand_in_model();
  if (model == nullptr) {
    refuse({"", kCommandLine, "--model"},
           "is required: a Hugging Face config.json, its folder or a preset's name");
  }
  ModelSpec found = estimator::find_model(model->text, model->file, model->key);
  if (const Setting* pad = settings.find(Table::model, "pad-vocab")) {
    const std::int64_t multiple = parse_count(*pad, 1);
    found.vocab = (found.vocab + multiple - 1) / multiple * multiple;
  }
  return found;
}

/// A device that was not named is this host's own, of which too many may be asked for.
Setting devices_setting(const Settings& settings) {
  for (const char* name : {"device", "devices"}) {
    const Setting* setting = settings.find(Table::cluster, name);
    if (setting != nullptr && setting->text != "auto") return *setting;
  }
  return {"auto", kCommandLine, "--device"};
}

/// What of [launch] the target has no use for.
void refuse_useless(const Settings& settings, const launcher::Target& target) {
  const std::string& name = target.traits.name;
  const Setting* command = settings.find(Table::launch, "command");
  if (target.has_worker && command != nullptr) {
    refuse({"", command->file, command->key},
           fmt::format("is for targets that train with your script; {} has its own", name),
           "--target command");
  }
  for (const char* key : {"flags", "template"}) {
    const Setting* setting = settings.find(Table::launch, key);
    if (setting == nullptr || name == kCommandTarget) continue;
    refuse({"", setting->file, setting->key},
           fmt::format("is for target command; {} writes its own files and flags", name));
  }
}

/// Everything but the workload, which needs to know the candidate first. The model is what the
/// settings name, unless there is one.
ProblemInput read_frame(const Settings& settings, const ModelSpec* model = nullptr) {
  ProblemInput input;
  const Setting* target = settings.find(Table::job, "target");
  input.user = read_user_command(settings);
  input.target = find_target(target == nullptr ? Setting{"builtin", "", ""} : *target, input.user,
                             command_setting(settings));
  refuse_useless(settings, *input.target);
  require_startable(settings, *input.target, input.user);
  input.problem.target = input.traits().name;
  input.problem.target_version = input.traits().version;
  input.problem.traits_revision = input.traits().revision;
  input.problem.model = model != nullptr ? *model : read_model(settings, input.traits());
  ClusterInput cluster = read_cluster(settings);
  input.problem.cluster = std::move(cluster.cluster);
  input.links_from = std::move(cluster.links_from);
  require_own_threads(settings, input.problem.cluster);
  input.devices_here = cluster.here;
  input.devices_from = devices_setting(settings);
  input.host_from = std::move(cluster.host_from);
  input.assumed = std::move(cluster.assumed);
  input.warnings = std::move(cluster.warnings);
  if (!input.problem.model.uncounted.empty()) {
    input.warnings.push_back(fmt::format("{}: not counted, as only the language model is: {}",
                                         input.problem.model.name, input.problem.model.uncounted));
  }
  return input;
}

/// A type that the device has no units for is computed in fp32's.
void warn_of_missing_units(ProblemInput& input) {
  const DeviceSpec& device = input.problem.cluster.device;
  const DType compute = input.problem.workload.recipe.compute;
  const bool half = compute == DType::bf16 || compute == DType::fp16;
  const auto& peak = compute == DType::bf16 ? device.bf16 : device.fp16;
  if (device.kind != DeviceKind::cuda || !half || peak) return;
  input.warnings.push_back(
      fmt::format("{} has no units for {} that are known: products are timed "
                  "at the rate of fp32",
                  device.name, word(compute)));
}

/// Masks are memory, and a framework that reads the model's configuration makes them.
void warn_of_dropout(const Settings& settings, ProblemInput& input) {
  const ModelSpec& model = input.problem.model;
  if (model.dropout.empty() || input.problem.workload.job == Job::inference) return;
  for (const char* said : {"hidden-dropout", "attention-dropout"}) {
    if (settings.find(Table::job, said) != nullptr) return;
  }
  input.warnings.push_back(
      fmt::format("{} says {}; no dropout is counted, nor emitted, unless --hidden-dropout or "
                  "--attention-dropout says so",
                  model.name, model.dropout));
}

/// What is to be done with the model, and the adapters that it gets for it.
void read_job(const Settings& settings, std::optional<std::int64_t> default_batch,
              ProblemInput& input) {
  Problem& problem = input.problem;
  JobDefaults defaults{.seq = std::nullopt, .global_batch = default_batch};
  if (input.traits().name == kCommandTarget) defaults.global_batch = 0;
  if (problem.model.stand_in) defaults.seq = 1;
  problem.workload = read_workload(settings, input.traits(), defaults);
  if (problem.workload.job != Job::inference && problem.model.checkpoint) {
    input.warnings.push_back(fmt::format(
        "{}: the checkpoint is stored as {}; training is estimated with its weights in {}",
        problem.model.name, problem.model.checkpoint->name, word(problem.workload.recipe.storage)));
  }
  warn_of_dropout(settings, input);
  problem.model.lora = read_lora(settings, problem.workload.job, problem.model);
  warn_of_missing_units(input);
}

const Setting* setting_named(const Settings& settings, const std::string& name) {
  const Key* key = find_key(name);
  return key == nullptr ? nullptr : settings.find(key->table, name);
}

/// What a person typed or wrote for the problem's key, such as workload.seq; null if nothing. Its
/// last part may be a unit, as in headroom.fraction. No room is left by too little memory, too.
const Setting* setting_of(const Settings& settings, std::string key) {
  key = flag_spelling(key.substr(key.find('.') + 1));
  std::replace(key.begin(), key.end(), '.', '-');
  while (true) {
    if (const Setting* setting = setting_named(settings, key)) return setting;
    if (key == "headroom") return setting_named(settings, "memory");
    const std::size_t dash = key.rfind('-');
    if (dash == std::string::npos) return nullptr;
    key.resize(dash);
  }
}

/// The same in the words that the person used.
void require_sound_input(const Problem& problem, const Settings& settings) {
  try {
    require_sound(problem, kCommandLine);
  } catch (const InputError& error) {
    const InputFault& fault = error.fault();
    const Setting* setting = setting_of(settings, fault.key);
    if (setting == nullptr) throw;
    refuse(*setting, fault.rule, fault.nearest);
  }
}

/// The first axis that stands beside a plan file, which has them all.
void refuse_axes_beside(const Settings& settings, const Setting& plan) {
  for (const Key& key : all_keys()) {
    if (key.table != Table::candidate || key.name == "plan") continue;
    const Setting* axis = settings.find(Table::candidate, key.name);
    // The axes of a file stand for the other verbs; only what is typed beside --plan contradicts
    // it.
    if (axis != nullptr && axis->file == plan.file) {
      refuse(*axis, fmt::format("contradicts {}, which has every axis", plan.key));
    }
  }
}

ProblemInput input_of_plan(const launcher::PlanFile& plan, const Settings& settings,
                           const Setting& file) {
  for (const Table table : {Table::cluster, Table::job}) {
    if (settings.has_any(table)) {
      refuse(file, fmt::format("has its own problem: leave out what belongs in [{}], or give the "
                               "model too",
                               kTableNames[static_cast<std::size_t>(table)]));
    }
  }
  ProblemInput input;
  input.problem = plan.problem;
  input.links_from.assign(plan.problem.cluster.links.size(), file.text);
  input.user = read_user_command(settings);
  input.target = find_target({plan.problem.target, file.text, "target"}, input.user,
                             command_setting(settings));
  require_startable(settings, *input.target, input.user);
  require_own_threads(settings, plan.problem.cluster);
  if (plan.problem.target_version != input.traits().version ||
      plan.problem.traits_revision != input.traits().revision) {
    input.warnings.push_back(
        fmt::format("the plan was made for version {} of target {}, this is {}",
                    plan.problem.target_version, plan.problem.target, input.traits().version));
  }
  const ClusterSpec& wanted = plan.problem.cluster;
  Settings device;
  device.set(
      Table::cluster, "device",
      {wanted.device.kind == DeviceKind::cpu ? "cpu" : wanted.device.name, file.text, "device"});
  device.set(Table::cluster, "devices", {std::to_string(wanted.devices()), file.text, "devices"});
  const ClusterInput here = read_cluster(device);
  input.devices_here = here.here;
  input.devices_from = {wanted.device.name, file.text, "problem.cluster.device"};
  if (here.here && here.cluster.device.name != wanted.device.name) {
    input.warnings.push_back(fmt::format("the plan was made for {}; this host has {}",
                                         wanted.device.name, here.cluster.device.name));
  }
  return input;
}

OneCandidate read_plan(const Settings& settings, const Setting& file) {
  refuse_axes_beside(settings, file);
  launcher::PlanFile plan = launcher::load_plan_file(file.text);
  OneCandidate one;
  one.candidate = std::move(plan.candidate);
  one.place = fmt::format("{}: candidate: ", file.text);
  if (settings.has_any(Table::model)) {
    one.input = read_frame(settings);
    read_job(settings, std::nullopt, one.input);
    require_sound_input(one.input.problem, settings);
  } else {
    one.input = input_of_plan(plan, settings, file);
  }
  return one;
}

/// [candidate] and what it is to do, for the rest of the problem.
OneCandidate read_axes(const Settings& settings, ProblemInput frame) {
  OneCandidate one{.input = std::move(frame), .candidate = {}};
  one.candidate = read_candidate(settings, one.input.problem.cluster.devices(), one.input.traits());
  const std::int64_t at_once = std::int64_t{one.candidate.dp} * one.candidate.micro_batch;
  read_job(settings, at_once, one.input);
  require_sound_input(one.input.problem, settings);
  return one;
}

}  // namespace

OneCandidate read_one_candidate(const Settings& settings) {
  if (const Setting* plan = settings.find(Table::candidate, "plan")) {
    return read_plan(settings, *plan);
  }
  return read_axes(settings, read_frame(settings));
}

OneCandidate read_one_candidate(const Settings& settings, const ModelSpec& model) {
  return read_axes(settings, read_frame(settings, &model));
}

ManyCandidates read_many_candidates(const Settings& settings) {
  ManyCandidates many;
  const Setting* job = settings.find(Table::job, "job");
  if (job != nullptr && job->text == word(Job::inference)) {
    refuse(*job, "is for the verb estimate: nothing is planned or tuned for servers");
  }
  many.input = read_frame(settings);
  read_job(settings, std::nullopt, many.input);
  require_sound_input(many.input.problem, settings);
  many.space = read_space(settings, many.input.traits());
  many.budget = read_budget(settings);
  return many;
}

ProbeScope read_scope(const Settings& settings) {
  ProbeScope scope;
  if (const Setting* mode = settings.find(Table::budget, "mode")) {
    const std::vector<std::string> here{"full", "shadow"};  // truncated comes with a later version
    if (std::find(here.begin(), here.end(), mode->text) == here.end()) {
      refuse(*mode, "must be one of " + join_words(here), nearest_word(mode->text, here));
    }
    scope.kind = parse_setting_word<ScopeKind>(*mode);
  }
  if (const Setting* steps = settings.find(Table::budget, "steps")) {
    scope.steps = parse_count(*steps, 1);
  }
  if (const Setting* warmup = settings.find(Table::budget, "warmup")) {
    scope.warmup = parse_count(*warmup, 0);
  }
  return scope;
}

search::Budget read_budget(const Settings& settings) {
  search::Budget budget;
  budget.scope = read_scope(settings);
  if (const Setting* probes = settings.find(Table::budget, "probes")) {
    budget.probes = parse_count(*probes, 1);
  }
  if (const Setting* time = settings.find(Table::budget, "time")) {
    budget.seconds = parse_duration(*time).value;
  }
  return budget;
}

launcher::RunOptions read_run_options(const Settings& settings, const launcher::Target& target) {
  launcher::RunOptions options;
  if (!target.has_worker) options.watchdog_s = kFrameworkSilence_s;
  options.interrupted = interrupted;
  if (const Setting* worker = settings.find(Table::launch, "worker")) options.worker = worker->text;
  if (const Setting* timeout = settings.find(Table::launch, "timeout")) {
    options.deadline_s = parse_duration(*timeout).value;
  }
  if (const Setting* watchdog = settings.find(Table::launch, "watchdog")) {
    options.watchdog_s = parse_duration(*watchdog).value;
  }
  if (const Setting* environment = settings.find(Table::launch, "environment")) {
    options.environment = parse_pairs(*environment);
  }
  return options;
}

void require_devices_here(const ProblemInput& input) {
  if (input.devices_here) return;
  const ClusterSpec& cluster = input.problem.cluster;
  refuse(input.devices_from,
         fmt::format("cannot be measured here: this host does not have {} {}; estimate and plan "
                     "work without, and device cpu is on every host",
                     cluster.devices(), cluster.device.name));
}

bool worker_is_there(const ProblemInput& input, const launcher::RunOptions& options) {
  const std::string worker = launcher::worker_path(options, input.problem.cluster.device.kind);
  return access(worker.c_str(), X_OK) == 0;
}

void require_runner(const ProblemInput& input, const launcher::RunOptions& options) {
  const launcher::Target& target = *input.target;
  if (!target.has_worker) {
    if (!input.user.words.empty() || target.has_script) return;
    refuse({target.traits.name, kCommandLine, "--target"},
           "trains with your script: put it and its arguments behind --, as `-- train.py`, or as "
           "command into [launch] of the TOML file");
  }
  if (worker_is_there(input, options)) return;
  throw WorldError(fmt::format("the worker {} cannot be run ({}); `./dev build` makes it",
                               launcher::worker_path(options, input.problem.cluster.device.kind),
                               std::strerror(errno)));
}

}  // namespace planwright::cli
