#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command_input.h"
#include "cli/console.h"
#include "cli/launch_folder.h"
#include "cli/other_targets.h"
#include "cli/print_probe.h"
#include "cli/print_table.h"
#include "cli/problem_input.h"
#include "cli/same_command.h"
#include "cli/storage_input.h"
#include "cli/targets.h"
#include "cli/verbs.h"
#include "launcher/config_diff.h"
#include "launcher/files.h"
#include "launcher/missing_script.h"
#include "launcher/other_plans.h"
#include "launcher/said_twice.h"
#include "launcher/shell.h"
#include "launcher/user_command_json.h"
#include "studies/history.h"
#include "studies/store.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "emit",
    .summary =
        "The launch configuration of a plan: the best of a study, one of its trials, or a file. "
        "The command goes to stdout, its files to --out.",
    .arguments = "[FILE.toml]",
    .example = "planwright emit --storage build/demo/demo.db --out /tmp/launch",
    .tables = {Table::model, Table::cluster, Table::job, Table::launch, Table::storage},
    .own = {"plan", "trial", "steps", "out", "force", "diff"},
    .most_words = 1,
    .takes_file = true,
    .takes_command = true,
};

/// The first key of a problem that was given, `file` being where if it matters. Not the target,
/// which is compared in any case.
const Setting* problem_setting(const Settings& settings, std::string_view file = "") {
  for (const Key& key : all_keys()) {
    if (key.table > Table::job || key.name == "target") continue;
    const Setting* setting = settings.find(key.table, key.name);
    if (setting != nullptr && (file.empty() || setting->file == file)) return setting;
  }
  return nullptr;
}

/// Studies and plan files of earlier versions have no command.
void require_command(const launcher::EmitRequest& request) {
  const Problem& problem = request.plan.problem;
  if (problem.target != kCommandTarget || !request.user.words.empty()) return;
  throw InputError({request.source, "--target", problem.target,
                    "needs the command behind --, which is: " + problem.target_version, ""});
}

/// The study that is named, that belongs to the problem, or that is the only one of the file. One
/// that is named must belong to the problem, where there is one.
studies::StudyRef wanted_study(studies::Store& store, const Settings& settings) {
  const Setting* part = problem_setting(settings);
  const Setting* target = settings.find(Table::job, "target");
  const bool may_be_unknown = target != nullptr && target->text == kCommandTarget;
  if (!settings.has_any(Table::model) && (part == nullptr || !may_be_unknown)) {
    if (part != nullptr) refuse(*part, "needs --model: without it the problem is the study's");
    return studies::find_study(store, given_study(settings));
  }
  const ProblemInput input = read_many_candidates(settings).input;
  require_command_of_study(store, settings, input.problem, input.user);
  return studies::find_study(store, study_name(settings, input.problem), input.problem);
}

studies::StudyTrial measured_trial(studies::Store& store, const studies::StudyRef& study,
                                   const Setting& number) {
  auto shown = studies::show_trial(store, study, parse_integer(number, 0));
  const OutcomeKind kind = shown.trial.outcome.kind();
  if (kind == OutcomeKind::ok) return shown;
  const auto best = studies::best_trial(store, study);
  refuse(number, fmt::format("{} when it was measured; emit a measured one", ending_text(kind)),
         best ? std::to_string(best->trial.number) : "");
}

studies::StudyTrial chosen_trial(studies::Store& store, const studies::StudyRef& study,
                                 const Settings& settings) {
  if (const Setting* number = settings.find(Table::none, "trial")) {
    return measured_trial(store, study, *number);
  }
  auto best = studies::best_trial(store, study);
  if (!best) {
    refuse({study.name, store.path(), "study"}, "has no measured plan yet: run planwright tune");
  }
  return *std::move(best);
}

launcher::EmitRequest emit_of_study(const Settings& settings) {
  studies::Store store = studies::Store::open(storage_path(settings), studies::OpenMode::read_only);
  const studies::StudyRef study = wanted_study(store, settings);
  const studies::StudyTrial chosen = chosen_trial(store, study, settings);
  launcher::EmitRequest request{
      .plan = launcher::plan_of(chosen.problem, chosen.trial, chosen.study),
      .source = store.path()};
  const Json kept = studies::kept_command(store, study);
  if (!kept.is_null()) request.user = launcher::user_command_from_json(kept, store.path());
  return request;
}

launcher::EmitRequest emit_of_file(const Settings& settings, const Setting& file) {
  if (const Setting* trial = settings.find(Table::none, "trial")) {
    refuse(*trial, "contradicts --plan");
  }
  for (const char* name : {"storage", "study"}) {
    const Setting* storage = settings.find(Table::storage, name);
    if (storage != nullptr && storage->file == kCommandLine) refuse(*storage, "contradicts --plan");
  }
  if (const Setting* part = problem_setting(settings, kCommandLine)) {
    refuse(*part, "contradicts --plan, which has its own problem");
  }
  return {.plan = launcher::load_plan_file(file.text),
          .source = file.text,
          .user = launcher::load_plan_command(file.text)};
}

/// One that is there, or can be made.
void require_folder(const Setting& out) {
  const std::string some_file = (std::filesystem::path(out.text) / "file").string();
  const std::string fault = launcher::unwritable(some_file);
  if (!fault.empty()) refuse(out, fault);
}

launcher::EmitRequest read_request(const Settings& settings) {
  const Setting* file = settings.find(Table::candidate, "plan");
  launcher::EmitRequest request =
      file == nullptr ? emit_of_study(settings) : emit_of_file(settings, *file);
  request.folder = std::filesystem::current_path().string();
  const Setting* out = settings.find(Table::none, "out");
  request.out = out == nullptr ? kLaunchFolder : out->text;
  if (out != nullptr) require_folder(*out);
  return request;
}

/// The same layout under another target, whose copies of the weights are others and which nobody
/// has measured it with.
void move_to(const launcher::Target& target, const Setting& wanted, launcher::PlanFile& plan) {
  Workload& job = plan.problem.workload;
  const auto usual = target.traits.recipe(job.precision);
  if (!usual) {
    refuse(wanted, fmt::format("has no precision {}, which the plan of target {} is made for",
                               word(job.precision), plan.problem.target));
  }
  const bool is_usual =
      plan.problem.target == kCommandTarget ||
      job.recipe == find_target({plan.problem.target, "", ""})->traits.recipe(job.precision);
  if (is_usual) job.recipe = *usual;
  plan.problem.target = target.traits.name;
  plan.problem.target_version = target.traits.version;
  plan.problem.traits_revision = target.traits.revision;
  plan.candidate.knobs.clear();
  plan.evidence = {};
}

/// Gives the request the user's command, too.
std::shared_ptr<const launcher::Target> target_of(const Settings& settings,
                                                  launcher::EmitRequest& request) {
  launcher::PlanFile& plan = request.plan;
  const Setting* given = settings.find(Table::job, "target");
  const Setting wanted =
      given == nullptr ? Setting{plan.problem.target, "the plan", "target"} : *given;
  const bool moves = wanted.text != plan.problem.target;
  const WholeCommand measured{plan.problem.target_version, request.user};
  request.user = read_user_command(settings, moves ? launcher::UserCommand{} : measured.parts);
  if (!moves) require_command(request);
  auto target = find_target(wanted, request.user, command_setting(settings));
  if (target->traits.name != plan.problem.target) move_to(*target, wanted, plan);
  if (!moves && target->traits.name == kCommandTarget) {
    const bool is_file = settings.find(Table::candidate, "plan") != nullptr;
    require_same_command(settings, {target->traits.version, request.user}, measured,
                         is_file ? "" : plan.evidence.study);
  }
  require_startable(settings, *target, request.user);
  require_own_threads(settings, plan.problem.cluster);
  return target;
}

/// Of the launch: those in a file's [budget] are a probe's, which a plan of a worker's is.
int launch_steps(const Settings& settings, const launcher::Target& target,
                 const launcher::UserCommand& user) {
  const Setting* given = settings.find(Table::budget, "steps");
  if (target.has_worker) return read_scope(settings).steps;
  if (given == nullptr || given->file != kCommandLine) return 0;
  if (!launcher::names_placeholder(user, launcher::kStepsName)) {
    refuse(*given, "is what {steps} stands for, and your command does not name it");
  }
  return parse_count(*given, 1);
}

void warn_of_dropout(const Problem& problem, launcher::LaunchConfig& config) {
  const Workload& work = problem.workload;
  if (problem.model.dropout.empty() || work.hidden_dropout > 0 || work.attention_dropout > 0)
    return;
  config.warnings.push_back(
      fmt::format("the model says {}, and the plan has no dropout", problem.model.dropout));
}

void warn_of_overrides(const launcher::EmitRequest& request, launcher::LaunchConfig& config) {
  const std::vector<std::string> twice = launcher::said_twice(config, request.user);
  if (twice.empty()) return;
  config.warnings.push_back(fmt::format(
      "your own {} stands behind the plan's, and takes its place: what runs is not the plan",
      fmt::join(twice, ", ")));
}

/// A plan may be for another host than this one.
void warn_of_script(const launcher::EmitRequest& request, launcher::LaunchConfig& config) {
  const auto missing = launcher::missing_script(request.user);
  if (!missing) return;
  config.warnings.push_back(fmt::format("{} is not there in {}, where the command will be run",
                                        *missing, request.folder));
}

void tell(const launcher::LaunchConfig& config, const launcher::PlanFile& plan,
          const Console& console) {
  console.story(fmt::format("{}: {}, {}", plan.problem.model.name, describe(plan.candidate),
                            word(config.evidence)));
  for (const launcher::EmittedFile& file : config.files) {
    console.story(fmt::format("wrote {}", file.path));
  }
  console.warnings(config.warnings);
}

std::string keys_line(const std::vector<std::string>& keys, std::string_view what) {
  if (keys.empty()) return "";
  return fmt::format("{} {}: {}\n", counted(static_cast<std::int64_t>(keys.size()), "key"), what,
                     fmt::join(keys, ", "));
}

std::string difference_table(const std::vector<launcher::ConfigDifference>& all,
                             const Paint& paint) {
  if (all.empty()) return "no difference\n";
  std::vector<std::vector<std::string>> rows;
  for (const launcher::ConfigDifference& each : all) {
    rows.push_back({each.key, each.in_use.value_or("-"), each.planned.value_or("-")});
  }
  return table_text({{"key", Align::left}, {"in use", Align::left}, {"the plan", Align::left}},
                    rows, paint);
}

std::string comparison_text(const launcher::ConfigComparison& all, const Paint& paint) {
  std::vector<std::string> automatic;
  for (const launcher::ConfigDifference& each : all.automatic) {
    automatic.push_back(fmt::format("{} (the plan: {})", each.key, each.planned.value_or("-")));
  }
  return difference_table(all.differences, paint) +
         keys_line(all.own, "of yours that no plan decides") +
         keys_line(automatic, "\"auto\" in yours, which the framework fills in as it starts");
}

Json difference_json(const std::vector<launcher::ConfigDifference>& all) {
  const auto value = [](const std::optional<std::string>& text) {
    return text ? Json::parse(*text) : Json();
  };
  Json rows = Json::array();
  for (const launcher::ConfigDifference& each : all) {
    rows.push_back(
        {{"key", each.key}, {"in_use", value(each.in_use)}, {"planned", value(each.planned)}});
  }
  return rows;
}

bool is_emitted(const Settings& settings) {
  launcher::EmitRequest request = read_request(settings);
  target_of(settings, request)->emit(request);
  return true;
}

/// The key of what a plan breaks of its target's rules.
constexpr const char* kBrokenPlan = "candidate";

/// What the plan breaks is said with the targets whose files can say it.
launcher::LaunchConfig emitted(const launcher::Target& target, const launcher::EmitRequest& request,
                               const Settings& settings) {
  try {
    return target.emit(request);
  } catch (const InputError& error) {
    InputFault fault = error.fault();
    if (fault.key == kBrokenPlan) fault.rule = with_other_targets(fault.rule, settings, is_emitted);
    throw InputError(fault);
  }
}

/// Nothing is written.
int tell_differences(const launcher::Target& target, const launcher::EmitRequest& request,
                     const launcher::LaunchConfig& config, const std::string& path,
                     const Console& console) {
  const auto comparison =
      launcher::compare_config(config, path, launcher::other_plans(target, request));
  console.print(comparison_text(comparison, console.result_paint()));
  Json json{{"schema", "planwright.emit/1"}};
  json.update(launcher::to_json(config));
  json["files"] = Json::array();
  json["diff"] = difference_json(comparison.differences);
  json["diff_auto"] = difference_json(comparison.automatic);
  json["diff_own"] = comparison.own;
  console.print_json(json);
  return kExitDone;
}

}  // namespace

int run_emit(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  launcher::EmitRequest request = read_request(line.settings);
  const auto target = target_of(line.settings, request);
  request.steps = launch_steps(line.settings, *target, request.user);
  launcher::LaunchConfig config = emitted(*target, request, line.settings);
  if (const Setting* in_use = line.settings.find(Table::none, "diff")) {
    return tell_differences(*target, request, config, in_use->text, console);
  }
  warn_of_script(request, config);
  warn_of_overrides(request, config);
  warn_of_dropout(request.plan.problem, config);
  launcher::write_files(config, line.settings.marked(Table::none, "force"));

  tell(config, request.plan, console);
  console.print(launcher::shell_line(config.command, config.environment) + "\n");
  Json json{{"schema", "planwright.emit/1"}};
  json.update(launcher::to_json(config));
  console.print_json(json);
  return kExitDone;
}

}  // namespace planwright::cli
