#include "launcher/command_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "estimator/spec/median.h"

namespace planwright::launcher {
namespace {

const RankFate* fate_of_command(const RunEnd& end) {
  return end.ranks.empty() ? nullptr : &end.ranks.front();
}

/// Behind the warm-up, and with a time: the first step of a process has none.
bool is_measured(const CommandJob& job, const ObservedStep& step) {
  return step.step > job.scope.warmup && step.time_s && *step.time_s > 0 && !step.skipped;
}

Bytes larger(const std::optional<Bytes>& a, Bytes b) { return std::max(a.value_or(Bytes{}), b); }

void note_memory(const ObservedStep& step, bool on_device, RankMeasurement& rank) {
  const ObservedMemory& memory = step.memory;
  if (memory.peak) rank.whole_peak = larger(rank.whole_peak, *memory.peak);
  if (memory.reserved_peak) rank.reserved_peak = larger(rank.reserved_peak, *memory.reserved_peak);
  if (memory.device_used) rank.device_peak = larger(rank.device_peak, *memory.device_used);
  if (step.rss && !on_device) rank.rss_peak = larger(rank.rss_peak, *step.rss);
}

HeldBytes held_of(const ObservedAccounts& accounts) {
  return {accounts.parameters, accounts.gradients, accounts.optimizer, accounts.communication};
}

RankMeasurement measurement_of(const CommandJob& job, const ObservedProcess& process) {
  RankMeasurement rank;
  rank.rank = process.rank;
  const bool on_device = process.memory_source == "cuda_caching_allocator";
  for (const ObservedStep& step : process.steps) {
    if (step.accounts) rank.held = held_of(*step.accounts);
    if (!is_measured(job, step)) continue;
    rank.steps_s.push_back(*step.time_s);
    note_memory(step, on_device, rank);
  }
  return rank;
}

/// A step lasts as long as its slowest rank; steps that some rank has not measured are left out.
std::vector<double> slowest(const std::vector<RankMeasurement>& ranks) {
  std::size_t steps = ranks.front().steps_s.size();
  for (const RankMeasurement& rank : ranks) steps = std::min(steps, rank.steps_s.size());
  std::vector<double> slow(steps, 0);
  for (const RankMeasurement& rank : ranks) {
    for (std::size_t i = 0; i < steps; ++i) slow[i] = std::max(slow[i], rank.steps_s[i]);
  }
  return slow;
}

void set_step_time(const CommandJob& job, double seconds, Measurement& measured) {
  measured.step_time_s = seconds;
  measured.tokens_per_second_per_device =
      static_cast<double>(job.tokens) / seconds / static_cast<double>(job.ranks);
}

/// Of every rank that should train, or nothing.
std::optional<Measurement> observed_measurement(const CommandJob& job, const CommandEnd& end) {
  std::set<int> ranks;
  Measurement measured;
  for (const ObservedProcess& process : end.observed) {
    ranks.insert(process.rank);
    measured.ranks.push_back(measurement_of(job, process));
  }
  if (static_cast<int>(ranks.size()) < job.ranks) return std::nullopt;
  measured.steps_s = slowest(measured.ranks);
  if (measured.steps_s.empty()) return std::nullopt;
  set_step_time(job, median(measured.steps_s), measured);
  return measured;
}

/// The script's own word on time and memory, over what was seen of its ranks.
std::optional<Measurement> reported_measurement(const CommandJob& job, const CommandEnd& end) {
  if (!end.report || !end.report->is_useful()) return std::nullopt;
  const CommandReport& report = *end.report;
  Measurement measured = observed_measurement(job, end).value_or(Measurement{});
  std::vector<double> steps;
  for (const ReportedStep& step : report.steps) {
    if (step.step > job.scope.warmup) steps.push_back(step.time_s);
  }
  if (!steps.empty()) measured.steps_s = steps;
  if (report.step_time_s) {
    set_step_time(job, *report.step_time_s, measured);
  } else if (report.tokens_per_second && job.tokens > 0) {
    set_step_time(job, static_cast<double>(job.tokens) / *report.tokens_per_second, measured);
  } else if (!steps.empty()) {
    set_step_time(job, median(steps), measured);
  } else {
    return std::nullopt;
  }
  if (measured.steps_s.empty()) measured.steps_s = {measured.step_time_s};
  if (measured.ranks.empty()) measured.ranks.emplace_back();
  if (report.peak) {
    for (RankMeasurement& rank : measured.ranks) rank.whole_peak = report.peak;
  }
  measured.losses = report.losses;
  return measured;
}

/// Versions that every process says alike, and what memory was counted by.
std::map<std::string, std::string> environment_of(const CommandEnd& end) {
  std::map<std::string, std::string> environment;
  for (const ObservedProcess& process : end.observed) {
    for (const auto& [name, version] : process.versions) environment[name] = version;
    if (!process.memory_source.empty()) environment["memory_source"] = process.memory_source;
    if (!process.device_name.empty()) environment["device"] = process.device_name;
  }
  return environment;
}

std::string how_it_ended(const RankFate& fate) {
  if (fate.signal != 0) return fmt::format("ended by signal {}", fate.signal);
  return fmt::format("ended with exit code {}", fate.code);
}

std::vector<std::string> warnings_of(const CommandJob& job, const CommandEnd& end,
                                     const Measurement& measured, Witness witness) {
  std::vector<std::string> warnings;
  const auto steps = static_cast<int>(measured.steps_s.size());
  if (witness == Witness::observer && steps < job.scope.steps) {
    warnings.push_back(fmt::format("only {} of {} steps were measured: the script made no more",
                                   steps, job.scope.steps));
  }
  const RankFate* fate = fate_of_command(end.run);
  if (end.run.stopped_by == StoppedBy::nobody && fate != nullptr &&
      (fate->signal != 0 || fate->code != 0)) {
    warnings.push_back(
        fmt::format("the command {} after its steps were measured", how_it_ended(*fate)));
  }
  if (end.report && !end.report->problem.empty()) {
    warnings.push_back(fmt::format("the script's report is left out: {}", end.report->problem));
  }
  return warnings;
}

CommandOutcome good(const CommandJob& job, const CommandEnd& end, Measurement measured,
                    Witness witness) {
  CommandOutcome result;
  result.witness = witness;
  result.warnings = warnings_of(job, end, measured, witness);
  result.outcome.environment = environment_of(end);
  result.outcome.value = std::move(measured);
  return result;
}

/// The first rank whose memory ran out without anybody catching it; else one that was caught in a
/// run that failed all the same.
std::optional<std::pair<int, ObservedFull>> first_full(const CommandEnd& end) {
  std::optional<std::pair<int, ObservedFull>> caught;
  for (const ObservedProcess& process : end.observed) {
    for (const ObservedFull& full : process.full) {
      if (!full.caught) return std::pair(process.rank, full);
      if (!caught) caught = std::pair(process.rank, full);
    }
  }
  return caught;
}

OutOfMemory out_of_memory(int rank, const ObservedFull& full) {
  OutOfMemory out;
  out.rank = rank;
  out.requested = full.requested.value_or(Bytes{});
  out.allocated = full.allocated.value_or(Bytes{});
  out.reserved = full.reserved;
  out.capacity = full.capacity.value_or(out.allocated + out.requested);
  return out;
}

Failure failed(OutcomeKind kind, std::string detail, const RankFate* fate) {
  return {kind, std::move(detail), fate == nullptr ? "" : kept_tail(fate->log_tail), {}};
}

/// What an exception that nobody caught says is missing here, rather than wrong.
bool names_missing_package(const std::string& text) {
  return text.find("ModuleNotFoundError") != text.npos || text.find("No module named") != text.npos;
}

std::string first_error(const CommandEnd& end) {
  for (const ObservedProcess& process : end.observed) {
    if (!process.error.empty()) return fmt::format("rank {}: {}", process.rank, process.error);
  }
  return "";
}

/// Of a script that ended as if all were well.
std::string why_nothing_measured(const CommandJob& job, const CommandEnd& end) {
  if (end.report && !end.report->problem.empty()) {
    return fmt::format("the script's report cannot be used: {}", end.report->problem);
  }
  if (!job.observe) return "it left no report in PLANWRIGHT_REPORT, and it was not observed";
  if (end.observed.empty()) {
    return "it left no report in PLANWRIGHT_REPORT, and no process of it was seen to step an "
           "optimizer of torch: it makes none, or its Python ignores PYTHONPATH (-I, -E)";
  }
  const int seen = static_cast<int>(end.observed.size());
  if (seen < job.ranks) {
    return fmt::format("{} of {} ranks were seen to step an optimizer", seen, job.ranks);
  }
  return fmt::format("it made no step behind the {} of the warm-up", job.scope.warmup);
}

bool is_whole(const CommandJob& job, const Measurement& measured) {
  return static_cast<int>(measured.steps_s.size()) >= job.scope.steps;
}

/// By itself, and without a word of trouble.
bool ended_well(const CommandEnd& end) {
  const RankFate* fate = fate_of_command(end.run);
  return fate != nullptr && fate->not_started.empty() && fate->signal == 0 && fate->code == 0 &&
         end.run.stopped_by == StoppedBy::nobody && !end.run.supervisor_lost;
}

Outcome failure_outcome(const CommandJob& job, const CommandEnd& end) {
  const RankFate* fate = fate_of_command(end.run);
  const auto as = [&](OutcomeKind kind, std::string detail) {
    return Outcome{failed(kind, std::move(detail), fate), environment_of(end)};
  };
  if (fate != nullptr && !fate->not_started.empty()) {
    return as(OutcomeKind::environment, fate->not_started);
  }
  if (const auto full = first_full(end); full && full->second.on_cpu) {
    return as(OutcomeKind::host_out_of_memory,
              fmt::format("rank {}: {}", full->first, full->second.message));
  } else if (full) {
    return {out_of_memory(full->first, full->second), environment_of(end)};
  }
  if (end.run.stopped_by == StoppedBy::watchdog) {
    return as(OutcomeKind::hung,
              fmt::format("no step and no other sign of life for {:g} s", end.run.limit_s));
  }
  if (end.run.stopped_by == StoppedBy::deadline) {
    return as(OutcomeKind::timed_out, fmt::format("still running after {:g} s", end.run.limit_s));
  }
  if (fate == nullptr || end.run.supervisor_lost) {
    return as(OutcomeKind::crashed, "the supervisor of the command was ended from outside");
  }
  if (fate->signal == 0 && fate->code == 0) {
    return as(OutcomeKind::crashed, why_nothing_measured(job, end));
  }
  const OutcomeKind by_log = kind_of_death(*fate, end.run.oom_killed);
  const std::string error = first_error(end);
  const bool missing = names_missing_package(error) || names_missing_package(fate->log_tail);
  return as(missing ? OutcomeKind::environment : by_log,
            fmt::format("the command {}{}", how_it_ended(*fate),
                        "; " + (error.empty() ? last_line(fate->log_tail) : error)));
}

}  // namespace

CommandOutcome command_verdict(const CommandJob& job, const CommandEnd& end) {
  if (auto measured = reported_measurement(job, end)) {
    return good(job, end, *std::move(measured), Witness::report);
  }
  auto measured = observed_measurement(job, end);
  if (measured && (is_whole(job, *measured) || ended_well(end))) {
    return good(job, end, *std::move(measured), Witness::observer);
  }
  return {failure_outcome(job, end), {}, {}};
}

}  // namespace planwright::launcher
