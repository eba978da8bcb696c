#include "search/tune.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cli/command_input.h"
#include "cli/console.h"
#include "cli/host_room.h"
#include "cli/infeasible.h"
#include "cli/launch_folder.h"
#include "cli/other_targets.h"
#include "cli/print_estimate.h"
#include "cli/print_probe.h"
#include "cli/print_table.h"
#include "cli/print_tune.h"
#include "cli/prior.h"
#include "cli/problem_input.h"
#include "cli/same_command.h"
#include "cli/signals.h"
#include "cli/storage_input.h"
#include "cli/tune_session.h"
#include "cli/verbs.h"
#include "estimator/calibrate.h"
#include "launcher/user_command_json.h"
#include "studies/store.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "tune",
    .summary =
        "Finds the fastest candidate that really fits, by probing on this host; goes on with a "
        "study that exists.",
    .arguments = "[FILE.toml]",
    .example = "planwright tune docs/demo/demo.toml --probes 6 --storage /tmp/demo.db",
    .tables = {Table::model, Table::cluster, Table::job, Table::space, Table::budget, Table::launch,
               Table::storage},
    .axes = Table::space,
    .own = {"resume"},
    .most_words = 1,
    .takes_file = true,
    .takes_command = true,
};

/// A study that was made or found, and what was measured for it before.
struct OpenStudy {
  studies::Store store;
  studies::StudyRef ref;
  std::vector<Trial> history;
};

OpenStudy open_study(const Settings& settings, const ProblemInput& input, const Console& console) {
  studies::Store store = studies::Store::open(storage_path(settings), studies::OpenMode::create);
  if (!given_study(settings).empty()) {
    require_command_of_study(store, settings, input.problem, input.user);
  }
  const studies::StudyRef ref =
      store.open_study(study_name(settings, input.problem), input.problem);
  store.keep_command(ref, launcher::to_json(input.user));
  if (const int dead = store.fail_dead_owners(ref); dead > 0) {
    console.story(fmt::format("{} of a tuner that is gone: now failed, to be tried again",
                              counted(dead, "probe")));
  }
  std::vector<Trial> history = studies::conclusive_trials(store, ref);
  console.warnings(store.take_warnings());
  return {std::move(store), ref, std::move(history)};
}

/// A study does not see into the files of its command.
std::vector<std::string> changed_files(const launcher::UserCommand& user,
                                       const std::vector<Trial>& history) {
  std::vector<std::string> warnings;
  double last = 0;
  for (const Trial& trial : history) last = std::max(last, trial.finished_unix_s);
  for (const std::string& word : user.words) {
    struct stat file {};
    const bool newer = !history.empty() && ::stat(word.c_str(), &file) == 0 &&
                       S_ISREG(file.st_mode) && static_cast<double>(file.st_mtim.tv_sec) > last;
    if (!newer) continue;
    warnings.push_back(
        fmt::format("{} was changed after the last trial of this study, whose measurements are of "
                    "the older one: begin another study (--study NAME) if it matters",
                    word));
  }
  return warnings;
}

void tell_start(const Problem& problem, const search::Space& space, const OpenStudy& study,
                const Console& console) {
  console.story(problem_text(problem));
  console.story(fmt::format("study {} in {}: {}, {} legal, {} so far", study.ref.name,
                            study.store.path(), counted(space.counted, "candidate"),
                            space.legal.size(),
                            counted(static_cast<std::int64_t>(study.history.size()), "trial")));
  if (problem.target != kCommandTarget) return;
  for (const auto& [rule, broken] : space.examples) {
    console.story(fmt::format("left out, {}: {}", counted(space.dropped.at(rule), "candidate"),
                              reason_text(broken)));
  }
}

/// What writes the files of the best plan.
std::vector<std::string> emit_command(const TuneResult& result, const launcher::UserCommand& user) {
  std::vector<std::string> words{"planwright", "emit",       "--storage", result.storage,
                                 "--study",    result.study, "--out",     kLaunchFolder};
  if (launcher::names_placeholder(user, launcher::kStepsName)) {
    words.insert(words.end(), {"--steps", launcher::kStepsPlaceholder});
  }
  return words;
}

std::set<std::string> tried_hashes(const std::vector<Trial>& trials) {
  std::set<std::string> hashes;
  for (const Trial& trial : trials) hashes.insert(candidate_hash(trial.candidate));
  return hashes;
}

void tell_result(const ProblemInput& input, const Plan& plan, OpenStudy& study,
                 const Console& console) {
  TuneResult result{.plan = plan, .storage = study.store.path(), .study = study.ref.name};
  result.tried = static_cast<std::int64_t>(
      tried_hashes(studies::conclusive_trials(study.store, study.ref)).size());
  result.emit = emit_command(result, input.user);
  if (plan.winner) {
    result.launch =
        input.target->emit({.plan = launcher::plan_of(input.problem, *plan.winner, result.study),
                            .out = kLaunchFolder,
                            .user = input.user});
  }
  console.print(result_text(input.problem, result, console.result_paint()));
  console.print_json(result_json(input.problem, result));
}

/// Nothing is measured or recorded for a space without a legal candidate.
int tell_none_legal(const Problem& problem, const search::Space& space, const Settings& settings,
                    const Console& console) {
  TuneResult result;
  result.plan.dropped = space.dropped;
  result.plan.counted = space.counted;
  result.plan.stopped = "no candidate is legal";
  console.print_json(result_json(problem, result));
  console.failure(with_other_targets(illegal_text(space), settings, accepts_space));
  return kExitNothingFeasible;
}

struct Ending {
  int exit_code = kExitDone;
  std::string message;  ///< empty when a plan was measured
};

/// The latest, for what failed before may have been mended. `earlier` trials are of other runs.
std::string failure_text(const std::vector<Trial>& trials, const std::vector<Trial>& earlier) {
  const auto failed = std::find_if(trials.rbegin(), trials.rend(), [](const Trial& trial) {
    return trial.outcome.failure() != nullptr;
  });
  if (failed == trials.rend()) return "";
  const bool old = std::any_of(earlier.begin(), earlier.end(),
                               [&](const Trial& trial) { return trial.number == failed->number; });
  return fmt::format(
      "no plan was measured; trial {}{}: {}; failed probes count and stay: once the cause is "
      "mended, begin another study (--study NAME) or allow more probes (--probes)",
      failed->number, old ? ", of an earlier run" : "", outcome_text(failed->outcome, Paint{}));
}

/// Candidates that nothing rules out. Of a plan without a winner, so that none was measured.
std::int64_t untried_candidates(const Plan& plan) {
  std::int64_t left = plan.counted;
  for (const auto& [reason, count] : plan.dropped) left -= count;
  return left;
}

/// Of candidates that nobody tried nothing is said.
std::string unfinished_text(const Plan& plan, const search::Space& space,
                            const std::vector<Trial>& trials) {
  const std::set<std::string> hashes = tried_hashes(trials);
  const auto tried =
      std::count_if(space.legal.begin(), space.legal.end(),
                    [&](const Candidate& each) { return hashes.contains(candidate_hash(each)); });
  if (tried == 0) return "no plan was measured: the budget was spent before a probe could end";
  return fmt::format(
      "no plan was measured: {} of {} {} tried, and ran out of memory; {}: allow more (--probes, "
      "--time)",
      tried, counted(static_cast<std::int64_t>(space.legal.size()), "candidate"),
      tried == 1 ? "was" : "were", plan.stopped);
}

/// By the model, if there is one, else by measurement. Of a model that nobody knows the sizes are
/// its stand-in's.
std::string nothing_fits_text(const ProblemInput& input, const search::Space& space,
                              const Calibration& prior, const std::vector<Trial>& trials) {
  const Problem& problem = input.problem;
  if (problem.model.stand_in) return out_of_memory_text(problem, trials);
  const estimator::Pricer pricer(problem, input.traits(),
                                 estimator::calibrate(problem, input.traits(), prior, trials));
  const search::Ranking ranking =
      search::rank(space, search::price_all(problem, input.traits(), space, pricer,
                                            std::thread::hardware_concurrency()));
  const std::string message = infeasible_text(space, ranking, pricer);
  return message.empty() ? out_of_memory_text(problem, trials) : message;
}

/// Why no plan was measured: the world failed, the budget was spent too early, or nothing fits.
Ending ending_without_plan(const ProblemInput& input, const search::Space& space,
                           const Calibration& prior, const Plan& plan,
                           const std::vector<Trial>& trials, const std::vector<Trial>& earlier) {
  const std::string failure = failure_text(trials, earlier);
  if (!failure.empty()) return {kExitWorldFailed, failure};
  if (untried_candidates(plan) > 0) return {kExitWorldFailed, unfinished_text(plan, space, trials)};
  const std::string message = nothing_fits_text(input, space, prior, trials);
  if (!message.empty()) return {kExitNothingFeasible, message};
  return {kExitWorldFailed, "no plan was measured: " + plan.stopped};
}

/// What cannot be written down is refused before a study is made for it.
void try_emit(const ProblemInput& input, const Candidate& candidate) {
  launcher::EmitRequest request{.plan = {input.problem, candidate, {}}};
  request.source = kCommandLine;
  request.user = input.user;
  input.target->emit(request);
}

/// One rank alone does not tell how fast the whole job is, which is what plans are ranked by.
void refuse_shadow(const Settings& settings, const ProbeScope& scope) {
  if (scope.kind == ScopeKind::full) return;
  refuse(*settings.find(Table::budget, "mode"),
         "is for the verb probe: tune compares the speed of whole jobs", "full");
}

}  // namespace

int run_tune(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const ManyCandidates many = read_many_candidates(line.settings);
  const ProblemInput& input = many.input;
  const search::Budget& budget = many.budget;
  refuse_shadow(line.settings, budget.scope);
  if (input.problem.target == kCommandTarget) require_program(line.settings, input.user);
  require_script(line.settings, input.user);
  require_something_to_tune(line.settings, input.problem, input.user);
  const launcher::RunOptions options = read_run_options(line.settings, *input.target);
  const search::Space space = search::enumerate(input.problem, input.traits(), many.space);
  console.warnings(input.warnings);
  require_devices_here(input);
  console.warnings(require_host_room(line.settings, input));
  require_runner(input, options);
  if (space.legal.empty()) {
    return tell_none_legal(input.problem, space, line.settings, console);
  }
  try_emit(input, space.legal.front());

  on_signal(OnSignal::ask);
  OpenStudy study = open_study(line.settings, input, console);
  tell_start(input.problem, space, study, console);
  console.warnings(changed_files(input.user, study.history));
  const Calibration prior = read_prior(input, line.settings, Benchmark::run, console);
  TuneSession session(input, study.store, study.ref, study.history, options, console,
                      line.common.seed);
  const Plan plan = search::tune(input.problem, input.traits(), space, prior, study.history,
                                 session.hooks(), budget, line.common.seed);

  tell_result(input, plan, study, console);
  if (interrupted()) {
    console.story("everything that was finished is recorded; the same command goes on from here");
    throw launcher::Interrupted();
  }
  if (!plan.host_failure.empty()) throw WorldError(plan.host_failure);
  if (plan.winner) return kExitDone;
  const Ending ending = ending_without_plan(
      input, space, prior, plan, studies::conclusive_trials(study.store, study.ref), study.history);
  console.failure(ending.message);
  return ending.exit_code;
}

}  // namespace planwright::cli
