#include "cli/print_tune.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/print_estimate.h"
#include "cli/print_probe.h"
#include "cli/print_table.h"
#include "estimator/known.h"
#include "estimator/spec/json.h"
#include "launcher/plan_file.h"
#include "launcher/shell.h"

namespace planwright::cli {
namespace {

constexpr const char* kSchema = "planwright.tune/1";

Json event(const char* name) { return {{"schema", kSchema}, {"event", name}}; }

/// |ln(measured / predicted)| as the share by which one differs from the other.
std::string error_text(std::optional<double> log_error) {
  return log_error ? fmt::format("{:.1f} %", 100 * std::expm1(*log_error)) : kNotKnown;
}

Json optional_json(std::optional<double> value) { return value ? Json(*value) : Json(); }

double rate_of(const Trial& trial) {
  return trial.outcome.measurement()->tokens_per_second_per_device;
}

Json measured_json(const Measurement& measurement) {
  return {{"tokens_per_second_per_device", measurement.tokens_per_second_per_device},
          {"step_time_s", measurement.step_time_s},
          {"steps_s", measurement.steps_s},
          {"allocated_bytes", measurement.allocated_peak().value},
          {"tensor_bytes", measurement.tensor_peak().value}};
}

Json predicted_json(const Problem& problem, const Estimate& estimate) {
  const Json known = known_json(problem, estimate);
  Json json{{"allocated_bytes", known["peak"]["allocated_bytes"]}};
  for (const char* key : {"step_time_s", "tokens_per_second_per_device", "fit_probability"}) {
    json[key] = known[key];
  }
  return json;
}

std::string predicted_text(const Problem& problem, const Estimate& estimate) {
  const bool has_memory = estimator::memory_is_known(problem, estimate);
  const bool has_time = estimator::time_is_known(problem, estimate);
  if (!has_memory && !has_time) return kNotKnown;
  const std::string memory =
      has_memory ? gib_text(estimate.peak().accounts.allocated()) + " GiB" : "memory not known";
  const std::string speed =
      has_time ? fmt::format("{} {}", rate_text(estimate.tokens_per_second_per_device),
                             rate_unit(problem))
               : "speed not known";
  const std::string fits =
      has_memory ? fmt::format(", p(fits) {:.2f}", estimate.fit_probability) : "";
  return fmt::format("{}, {}{}", memory, speed, fits);
}

Json runner_up_json(const Trial& trial) {
  return {{"number", trial.number},
          {"candidate", full_json(trial.candidate)},
          {"measured", measured_json(*trial.outcome.measurement())}};
}

std::string winner_text(const Problem& problem, const Trial& winner, const Paint& paint) {
  const Measurement& measured = *winner.outcome.measurement();
  const Bytes peak = measured.allocated_peak();
  return fmt::format(
      "{} {} (trial {})\n  {} {}, step {} ms, peak {} of {} GiB\n", paint.bold("best plan:"),
      describe(winner.candidate), winner.number, rate_text(measured.tokens_per_second_per_device),
      rate_unit(problem), ms_text(Seconds{measured.step_time_s}),
      peak == Bytes{} ? kNotKnown : gib_text(peak) + " GiB", gib_text(capacity(problem)));
}

std::string runners_up_table(const Problem& problem, const Plan& plan, const Paint& paint) {
  std::vector<Trial> by_rate = plan.runners_up;
  std::stable_sort(by_rate.begin(), by_rate.end(),
                   [](const Trial& a, const Trial& b) { return rate_of(a) > rate_of(b); });
  std::vector<std::vector<std::string>> rows;
  for (const Trial& trial : by_rate) {
    const Measurement& measured = *trial.outcome.measurement();
    rows.push_back({std::to_string(trial.number), rate_text(measured.tokens_per_second_per_device),
                    fmt::format("{:+.1f} %", 100 * (rate_of(trial) / rate_of(*plan.winner) - 1)),
                    peak_text(measured.allocated_peak()), describe(trial.candidate)});
  }
  return table_text({{"trial", Align::right},
                     {std::string(rate_unit(problem)), Align::right},
                     {"to best", Align::right},
                     {"peak GiB", Align::right},
                     {"runner-up", Align::left}},
                    rows, paint);
}

std::string dropped_table(const Plan& plan, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [reason, count] : plan.dropped) rows.push_back({reason, std::to_string(count)});
  return table_text({{"ruled out", Align::left}, {"candidates", Align::right}}, rows, paint);
}

/// What stands before the line of a trial.
std::string margin(std::int64_t number, bool numbered, const Paint& paint) {
  return numbered ? paint.bold(fmt::format("#{:<3}", number)) : "    ";
}

std::string summary_text(const TuneResult& result) {
  const Plan& plan = result.plan;
  std::string text = fmt::format("{}, {} of {}; {:.1f} s in this run; stopped: {}\n",
                                 counted(plan.probes, "probe"), counted(result.tried, "candidate"),
                                 plan.counted, plan.seconds, plan.stopped);
  text += fmt::format("model error of the step time: {} before, {} after\n",
                      error_text(plan.error_before), error_text(plan.error_after));
  if (plan.winner && plan.gain_left > 0) {
    text +=
        fmt::format("an untried plan is expected to gain at most {:.1f} %\n", 100 * plan.gain_left);
  }
  return text + fmt::format("study {} in {}\n", result.study, result.storage);
}

}  // namespace

std::string proposal_text(const Problem& problem, std::int64_t number, const Proposal& proposal,
                          const Paint& paint) {
  return fmt::format("{} {}\n     why        {}\n     predicted  {}", margin(number, true, paint),
                     describe(proposal.candidate), proposal.why,
                     predicted_text(problem, proposal.estimate));
}

std::string finished_text(const Trial& trial, bool numbered, const Paint& paint,
                          std::string_view rate_unit) {
  return fmt::format("{} measured   {} ({:.1f} s)", margin(trial.number, numbered, paint),
                     outcome_text(trial.outcome, paint, rate_unit),
                     trial.finished_unix_s - trial.started_unix_s);
}

std::string not_measured_text(std::int64_t number, const Outcome& outcome, bool numbered,
                              const Paint& paint) {
  return fmt::format("{} not measured: {}", margin(number, numbered, paint),
                     outcome_text(outcome, paint));
}

Json probe_started_json(const Problem& problem, std::int64_t number, const Proposal& proposal) {
  Json json = event("probe_started");
  json["number"] = number;
  json["candidate"] = full_json(proposal.candidate);
  json["scope"] = to_json(proposal.scope);
  json["why"] = proposal.why;
  json["predicted"] = predicted_json(problem, proposal.estimate);
  return json;
}

Json probe_finished_json(const Problem& problem, const Trial& trial) {
  Json json = event("probe_finished");
  json["number"] = trial.number;
  json["candidate"] = full_json(trial.candidate);
  json["seconds"] = trial.finished_unix_s - trial.started_unix_s;
  json["predicted"] = predicted_json(problem, trial.estimate);
  json.update(to_json(trial.outcome));
  return json;
}

Json refit_json(const Calibration& calibration, const search::ModelError& error) {
  Json json = event("refit");
  json["calibration"] = calibration_id(calibration);
  json["observations"] = calibration.observations;
  json["error_before"] = optional_json(error.before);
  json["error_after"] = optional_json(error.after);
  return json;
}

std::string result_text(const Problem& problem, const TuneResult& result, const Paint& paint) {
  const Plan& plan = result.plan;
  std::string text = fmt::format("{}\n", problem_text(problem));
  text += plan.winner ? winner_text(problem, *plan.winner, paint)
                      : fmt::format("{}\n", paint.bad("no plan was measured"));
  if (!plan.runners_up.empty()) text += "\n" + runners_up_table(problem, plan, paint);
  if (!plan.dropped.empty()) text += "\n" + dropped_table(plan, paint);
  text += "\n" + summary_text(result);
  if (plan.winner) {
    text += fmt::format("write the launch files: {}\n", launcher::shell_line(result.emit));
    text += fmt::format("then launch it:         {}\n",
                        launcher::shell_line(result.launch.command, result.launch.environment));
  }
  return text;
}

Json result_json(const Problem& problem, const TuneResult& result) {
  const Plan& plan = result.plan;
  Json json = event("result");
  json["plan"] = Json();
  json["candidate"] = Json();
  json["measured"] = Json();
  if (plan.winner) {
    json["plan"] = launcher::to_json(launcher::plan_of(problem, *plan.winner, result.study));
    json["number"] = plan.winner->number;
    json["candidate"] = full_json(plan.winner->candidate);
    json["measured"] = measured_json(*plan.winner->outcome.measurement());
  }
  json["runners_up"] = Json::array();
  for (const Trial& trial : plan.runners_up) json["runners_up"].push_back(runner_up_json(trial));
  json["dropped"] = Json::object();
  for (const auto& [reason, count] : plan.dropped) json["dropped"][reason] = count;
  json["counted"] = plan.counted;
  json["tried"] = result.tried;
  json["probes"] = plan.probes;
  json["seconds"] = plan.seconds;
  json["gain_left"] = plan.gain_left;
  json["stopped"] = plan.stopped;
  json["error_before"] = optional_json(plan.error_before);
  json["error_after"] = optional_json(plan.error_after);
  json["storage"] = result.storage;
  json["study"] = result.study;
  json["emit"] = result.emit;
  json["command"] = result.launch.command;
  json["environment"] = result.launch.environment;
  return json;
}

}  // namespace planwright::cli
