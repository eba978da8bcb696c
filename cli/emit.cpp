#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/problem_input.h"
#include "cli/shell.h"
#include "cli/storage_input.h"
#include "cli/targets.h"
#include "cli/verbs.h"
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
    .tables = {Table::model, Table::cluster, Table::job, Table::storage},
    .own = {"plan", "trial", "steps", "launcher", "out", "force"},
    .most_words = 1,
    .takes_file = true,
};

/// The study that is named, that belongs to the problem, or that is the only one of the file.
std::string wanted_study(const Settings& settings) {
  const std::string given = given_study(settings);
  if (!given.empty() || !settings.has_any(Table::model)) return given;
  return study_name(settings, read_many_candidates(settings).input.problem);
}

launcher::PlanFile plan_of_study(const Settings& settings) {
  studies::Store store = studies::Store::open(storage_path(settings), studies::OpenMode::read_only);
  const studies::StudyRef study = studies::find_study(store, wanted_study(settings));
  if (const Setting* number = settings.find(Table::none, "trial")) {
    const auto shown = studies::show_trial(store, study, parse_integer(*number, 0));
    return launcher::plan_of(shown.problem, shown.trial, shown.study);
  }
  const auto best = studies::best_trial(store, study);
  if (!best) {
    refuse({study.name, store.path(), "study"}, "has no measured plan yet: run planwright tune");
  }
  return launcher::plan_of(best->problem, best->trial, best->study);
}

launcher::PlanFile read_plan(const Settings& settings) {
  const Setting* file = settings.find(Table::candidate, "plan");
  const Setting* trial = settings.find(Table::none, "trial");
  if (file != nullptr && trial != nullptr) refuse(*trial, "contradicts --plan");
  return file == nullptr ? plan_of_study(settings) : launcher::load_plan_file(file->text);
}

const launcher::Target& target_of(const Settings& settings, const launcher::PlanFile& plan) {
  const Setting* wanted = settings.find(Table::job, "target");
  const launcher::Target& target =
      find_target(wanted == nullptr ? Setting{plan.problem.target, "the plan", "target"} : *wanted);
  if (target.traits.name != plan.problem.target) {
    refuse(*wanted, fmt::format("is not the target of the plan, which was made for {}",
                                plan.problem.target));
  }
  if (const Setting* launcher = settings.find(Table::none, "launcher")) {
    refuse(*launcher,
           fmt::format("is not for target {}, which starts its ranks itself", target.traits.name));
  }
  return target;
}

void tell(const launcher::LaunchConfig& config, const launcher::PlanFile& plan,
          const Console& console) {
  console.story(fmt::format("{}: {}, {}", plan.problem.model.name, describe(plan.candidate),
                            word(config.evidence)));
  for (const launcher::EmittedFile& file : config.files) {
    console.story(fmt::format("wrote {}", file.path));
  }
  for (const std::string& warning : config.warnings) console.warning(warning);
}

}  // namespace

int run_emit(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const launcher::PlanFile plan = read_plan(line.settings);
  const launcher::Target& target = target_of(line.settings, plan);
  launcher::EmitRequest request{.plan = plan, .steps = read_scope(line.settings).steps};
  if (const Setting* out = line.settings.find(Table::none, "out")) request.out = out->text;
  const launcher::LaunchConfig config = target.emit(request);
  launcher::write_files(config, line.settings.marked(Table::none, "force"));

  tell(config, plan, console);
  console.print(shell_line(config.command, config.environment) + "\n");
  Json json{{"schema", "planwright.emit/1"}};
  json.update(launcher::to_json(config));
  console.print_json(json);
  return kExitDone;
}

}  // namespace planwright::cli
