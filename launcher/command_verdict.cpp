#include "launcher/command_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/command_failure.h"
#include "launcher/command_measurement.h"
#include "launcher/command_silence.h"
#include "launcher/disturbance.h"
#include "launcher/failure_words.h"

namespace planwright::launcher {
namespace {

bool is_whole(const CommandJob& job, const Measurement& measured) {
  return static_cast<int>(measured.steps_s.size()) >= job.scope.steps;
}

bool is_good(const CommandJob& job, const CommandEnd& end, const Measurement& measured) {
  return is_whole(job, measured) || ended_well(end);
}

/// No step came behind it, or the command says itself that it failed. That of a step's line says
/// nothing then: what a dying script had not printed yet comes last.
bool died_of_memory(const CommandEnd& end) {
  const auto cause = cause_of(end);
  if (!cause || !is_memory(*cause)) return false;
  const bool failed = end.run.stopped_by == StoppedBy::nobody && !ended_well(end);
  return failed || cause->failure.at_line > end.log.last_timed_line;
}

std::optional<std::int64_t> first_lost(const LogSummary& log) {
  for (const StepLoss& loss : step_losses(log)) {
    if (!loss.mean) return loss.step;
  }
  return std::nullopt;
}

/// By whoever knows, also where another witness has the time; empty if nobody says so.
std::string why_it_does_not_train(const CommandEnd& end) {
  auto step = end.report ? end.report->lost_step : std::nullopt;
  if (!step) step = first_lost(end.log);
  if (step) return fmt::format("the loss of step {} is not a finite number", *step);
  for (const ObservedProcess& process : end.observed) {
    if (!process.lost) continue;
    return fmt::format("after {} steps, parameters of rank {} are not finite numbers",
                       process.steps.size(), process.rank);
  }
  return "";
}

std::string how_it_was_stopped(const RunEnd& run) {
  return run.stopped_by == StoppedBy::watchdog
             ? fmt::format("the command gave no sign of life for {:g} s after", run.limit_s)
             : fmt::format("the command was ended at its deadline of {:g} s, after", run.limit_s);
}

/// What is odd about the end of a good run.
std::vector<std::string> warnings_of_end(const CommandEnd& end) {
  const RankFate* fate = fate_of_command(end);
  if (end.run.stopped_by != StoppedBy::nobody) {
    return {how_it_was_stopped(end.run) + " its steps were measured"};
  }
  if (fate == nullptr || (fate->signal == 0 && fate->code == 0)) return {};
  return {fmt::format("the command {} after its steps were measured", how_it_ended(*fate))};
}

std::vector<std::string> warnings_of_log(const CommandJob& job, const CommandEnd& end,
                                         const Measurement& measured) {
  std::vector<std::string> warnings;
  if (logged_times(job, end.log)->evidence == StepEvidence::mean) {
    warnings.emplace_back(
        "the log states the mean of all steps only, with the slow first ones among them");
  }
  const RankMeasurement& rank = measured.ranks.front();
  if (!rank.whole_peak && !rank.reserved_peak && !rank.device_peak) {
    warnings.emplace_back("the log states no peak of memory");
  }
  if (std::string missing = why_ranks_are_missing(job, end); !missing.empty()) {
    warnings.push_back(std::move(missing));
  }
  if (const auto cause = cause_of(end); cause && !cause->failure.consequence) {
    warnings.push_back(fmt::format("the log says \"{}\"", told(*cause)));
  }
  return warnings;
}

/// Whoever measured the steps, if its log says so.
std::vector<std::string> warnings_of_retries(const LogSummary& log) {
  std::int64_t retries = 0;
  for (const auto& [rank, memory] : log.memory) {
    retries = std::max(retries, memory.allocation_retries);
  }
  if (retries == 0) return {};
  return {
      fmt::format("the device ran full and its allocator emptied its cache, {} times at least: "
                  "the steps may be slower than with a little more memory",
                  retries)};
}

void append(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<std::string> warnings_of(const CommandJob& job, const CommandEnd& end,
                                     const Measurement& measured, Witness witness) {
  std::vector<std::string> warnings;
  if (witness != Witness::report && !is_whole(job, measured)) {
    warnings.push_back(fmt::format("only {} of {} steps were measured: the script {} no more",
                                   measured.steps_s.size(), job.scope.steps,
                                   witness == Witness::log ? "logged" : "made"));
  }
  append(warnings, warnings_of_end(end));
  if (end.report && !end.report->problem.empty()) {
    warnings.push_back(fmt::format("the script's report is left out: {}", end.report->problem));
  }
  if (end.report) append(warnings, end.report->ignored);
  if (witness == Witness::log) append(warnings, warnings_of_log(job, end, measured));
  append(warnings, warnings_of_retries(end.log));
  return warnings;
}

/// Of a run that measured its steps: a good one, if the plan trains.
CommandOutcome measured_outcome(const CommandJob& job, const CommandEnd& end, Measurement measured,
                                Witness witness) {
  if (const std::string why = why_it_does_not_train(end); !why.empty()) {
    const Failure failure{OutcomeKind::crashed, "the plan does not train: " + why, "", {}};
    return {Outcome{failure, {}}, {}, {}};
  }
  CommandOutcome result;
  result.witness = witness;
  result.warnings = warnings_of(job, end, measured, witness);
  result.outcome.environment[kWitness] = word(witness);
  if (const auto text = disturbance_text(end.others, measured.steps_s)) {
    result.outcome.environment[kDisturbance] = *text;
  }
  result.outcome.value = std::move(measured);
  return result;
}

CommandOutcome by_log(const CommandJob& job, const CommandEnd& end) {
  auto measured = logged_measurement(job, end);
  if (!measured || !is_good(job, end, *measured) || died_of_memory(end)) {
    return {command_failure(job, end), {}, {}};
  }
  return measured_outcome(job, end, *std::move(measured), Witness::log);
}

CommandOutcome by_best_witness(const CommandJob& job, const CommandEnd& end) {
  if (auto measured = reported_measurement(job, end)) {
    return measured_outcome(job, end, *std::move(measured), Witness::report);
  }
  if (auto measured = observed_measurement(job, end)) {
    if (!is_good(job, end, *measured)) return {command_failure(job, end), {}, {}};
    return measured_outcome(job, end, *std::move(measured), Witness::observer);
  }
  return by_log(job, end);
}

/// Versions that every process says alike, and what memory was counted by.
void note_processes(const CommandEnd& end, std::map<std::string, std::string>& environment) {
  for (const ObservedProcess& process : end.observed) {
    for (const auto& [name, version] : process.versions) environment[name] = version;
    if (!process.memory_source.empty()) environment["memory_source"] = process.memory_source;
    if (!process.device_name.empty()) environment["device"] = process.device_name;
  }
}

}  // namespace

CommandOutcome command_verdict(const CommandJob& job, const CommandEnd& end) {
  CommandOutcome result = by_best_witness(job, end);
  note_processes(end, result.outcome.environment);
  return result;
}

}  // namespace planwright::launcher
