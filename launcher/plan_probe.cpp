#include "launcher/plan_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/spec/error.h"
#include "launcher/files.h"
#include "launcher/turns.h"

namespace planwright::launcher {
namespace {

/// A framework takes long to start: its turns are as few as can cancel a machine's drift.
constexpr int kCommandRounds = 2;

std::vector<Outcome> measure_with_worker(const std::vector<PlanJob>& jobs, int rounds,
                                         const RunOptions& options) {
  std::vector<probes::TrainJob> train;
  for (const PlanJob& job : jobs) {
    train.push_back(
        make_train_job(job.problem, job.candidate, job.scope, job.target.traits, job.seed));
  }
  RunOptions with = options;
  const auto& own = jobs.front().user.environment;
  with.environment.insert(own.begin(), own.end());
  return run_in_turns(train, rounds, with);
}

LaunchConfig launch_config(const PlanJob& job, const std::string& folder) {
  EmitRequest request{.plan = {job.problem, job.candidate, {}}};
  request.source = "probe";
  request.out = folder;
  request.steps = job.scope.warmup + job.scope.steps;
  request.probe = true;
  request.user = job.user;
  return job.target.emit(request);
}

CommandJob command_job(const PlanJob& job, const LaunchConfig& config) {
  CommandJob command;
  command.argv = config.command;
  command.environment = config.environment;
  command.ranks = job.problem.cluster.devices();
  command.scope = job.scope;
  command.tokens = tokens_per_step(job.problem, job.candidate);
  command.samples = command.tokens / job.problem.workload.seq;
  command.observe = job.user.observe;
  command.log_formats = job.user.logs;
  command.log_formats.insert(command.log_formats.end(), job.target.logs.begin(),
                             job.target.logs.end());
  if (job.problem.cluster.device.kind == DeviceKind::cpu) {
    command.environment["OMP_NUM_THREADS"] = std::to_string(job.problem.cluster.threads_per_rank);
    command.budget = capacity(job.problem);
  }
  return command;
}

/// On a CPU the memory of a device is a budget, which a program that was not watched from inside
/// did not feel.
Outcome held_against(const CommandJob& job, Outcome outcome) {
  const Measurement* measured = outcome.measurement();
  if (measured == nullptr || !job.budget) return outcome;
  for (const RankMeasurement& rank : measured->ranks) {
    if (rank.allocated_peak() <= *job.budget) continue;
    OutOfMemory full;
    full.allocated = rank.allocated_peak();
    full.capacity = *job.budget;
    full.rank = rank.rank;
    return {full, outcome.environment};
  }
  return outcome;
}

Outcome measure_command(const PlanJob& job, const RunOptions& options) {
  try {
    const WorkFolder folder(options.temp_root);
    const LaunchConfig config = launch_config(job, folder.path());
    write_files(config, true);
    CommandJob command = command_job(job, config);
    command.observer = options.observer;
    command.folder = folder.path();
    CommandOutcome ended = run_command(command, options);
    const Measurement* measured = ended.outcome.measurement();
    if (measured != nullptr && measured->allocated_peak() == Bytes{}) {
      ended.warnings.emplace_back(
          "nobody said how much memory it took: whether the plan fits is not known");
    }
    if (!ended.warnings.empty()) {
      ended.outcome.environment[kOddity] = fmt::format("{}", fmt::join(ended.warnings, "; "));
    }
    return held_against(command, std::move(ended.outcome));
  } catch (const WorldError& error) {
    return {Failure{OutcomeKind::environment, error.what(), "", {}}, {}};
  }
}

}  // namespace

std::vector<Outcome> measure_plans(const std::vector<PlanJob>& jobs, int rounds,
                                   const RunOptions& options) {
  if (jobs.front().target.has_worker) return measure_with_worker(jobs, rounds, options);
  std::vector<int> steps;
  for (const PlanJob& job : jobs) steps.push_back(job.scope.steps);
  return in_turns(steps, std::min(rounds, kCommandRounds), [&](const std::vector<Turn>& turns) {
    PlanJob first = jobs[turns.front().job];
    first.scope.steps = turns.front().steps;
    return std::vector<Outcome>{measure_command(first, options)};
  });
}

}  // namespace planwright::launcher
