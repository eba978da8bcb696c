#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/command_input.h"
#include "cli/console.h"
#include "cli/devices_turn.h"
#include "cli/host_room.h"
#include "cli/other_targets.h"
#include "cli/print_estimate.h"
#include "cli/print_probe.h"
#include "cli/prior.h"
#include "cli/problem_input.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "launcher/plan_probe.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "probe",
    .summary = "Measures one candidate on the devices of this host.",
    .arguments = "[FILE.toml]",
    .example = "planwright probe docs/demo/demo.toml --micro-batch 2 --zero 1",
    .tables = {Table::model, Table::cluster, Table::job, Table::candidate, Table::budget,
               Table::launch},
    .most_words = 1,
    .takes_file = true,
    .takes_command = true,
};

int exit_code(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::ok:
      return kExitDone;
    case OutcomeKind::out_of_memory:
      return kExitNothingFeasible;
    default:
      return kExitWorldFailed;
  }
}

Outcome measure(const ProblemInput& input, const Candidate& candidate, const ProbeScope& scope,
                const CommandLine& line, const Console& console) {
  launcher::RunOptions options = read_run_options(line.settings, *input.target);
  require_runner(input, options);
  on_signal(OnSignal::ask);
  const launcher::DeviceLock lock = await_devices(console);
  ProbeProgress progress(console, "probe", scope.warmup + scope.steps);
  options.progress = [&](const launcher::ProgressEvent& event) { progress.show(event); };
  const launcher::PlanJob job{*input.target, input.problem, candidate,
                              scope,         input.user,    line.common.seed};
  return launcher::measure_plans({job}, 1, options).front();
}

/// Nothing ran: the JSON is that of the estimate, with its verdict.
int refuse_illegal(const OneCandidate& one, const Estimate& estimate, const Console& console) {
  Json json{{"schema", "planwright.probe/1"}};
  json.update(estimate_json(one.input.problem, one.input.traits(), one.candidate, estimate));
  console.print_json(json);
  console.failure(one.place + estimate.reason);
  return kExitWrongInput;
}

/// The rank that a shadow probe plays: the one that is asked for, or the one that the estimate says
/// is the fullest.
void choose_rank(const Settings& settings, const Candidate& candidate, const Estimate& estimate,
                 ProbeScope& scope) {
  const Setting* rank = settings.find(Table::budget, "rank");
  if (scope.kind != ScopeKind::shadow) {
    if (rank != nullptr) refuse(*rank, "is for --mode shadow only", "--mode shadow");
    return;
  }
  scope.rank = rank == nullptr ? estimate.peak_rank : parse_count(*rank, 0);
  if (scope.rank < candidate.world()) return;
  refuse(*rank, fmt::format("is none of the plan's {} ranks", candidate.world()),
         std::to_string(candidate.world() - 1));
}

}  // namespace

int run_probe(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const OneCandidate one = read_one_candidate(line.settings);
  const auto& [input, candidate, place] = one;
  ProbeScope scope = read_budget(line.settings).scope;
  if (input.problem.target == kCommandTarget) require_program(line.settings, input.user);
  require_script(line.settings, input.user);
  console.warnings(input.warnings);
  if (scope.kind != ScopeKind::shadow) {
    require_devices_here(input);
    console.warnings(require_host_room(line.settings, input));
  }
  const Calibration prior = read_prior(input, line.settings, Benchmark::if_known, console);
  Estimate estimate = estimator::estimate(input.problem, input.traits(), candidate, prior);
  if (estimate.verdict == Verdict::invalid) {
    estimate.reason = with_other_targets(estimate.reason, line.settings, accepts_candidate);
    return refuse_illegal(one, estimate, console);
  }

  choose_rank(line.settings, candidate, estimate, scope);
  const Outcome outcome = measure(input, candidate, scope, line, console);
  console.warnings(oddities_of(outcome));
  console.print(
      probe_text(input.problem, candidate, scope, estimate, outcome, console.result_paint()));
  Json json{{"schema", "planwright.probe/1"}};
  json.update(probe_json(input.problem, candidate, scope, estimate, outcome));
  console.print_json(json);
  if (outcome.kind() != OutcomeKind::ok) console.failure(outcome_text(outcome, Paint{}));
  return exit_code(outcome.kind());
}

}  // namespace planwright::cli
