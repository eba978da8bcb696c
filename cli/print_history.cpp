#include "cli/print_history.h"

#include <fmt/core.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/print_estimate.h"
#include "cli/print_probe.h"
#include "cli/print_table.h"
#include "estimator/spec/json.h"

namespace planwright::cli {
namespace {

constexpr const char* kSchema = "planwright.history/1";

std::string states_text(const std::map<std::string, std::int64_t>& trials) {
  std::string text;
  for (const auto& [state, count] : trials) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, state);
  }
  return text.empty() ? "none" : text;
}

constexpr std::size_t kMostOfACommand = 60;

/// A user's command is known by its words.
std::string target_text(const Problem& problem) {
  if (problem.target != kCommandTarget) return problem.target;
  const std::string& command = problem.target_version;
  if (command.size() <= kMostOfACommand) return fmt::format("command: {}", command);
  std::size_t end = kMostOfACommand;  // not within a character
  while (end > 0 && (static_cast<unsigned char>(command[end]) & 0xC0) == 0x80) --end;
  return fmt::format("command: {} ...", command.substr(0, end));
}

std::string where_text(const Problem& problem) {
  return fmt::format("{} on {} x {}, {}", problem.model.name, problem.cluster.devices(),
                     problem.cluster.device.name, target_text(problem));
}

double rate_of(const studies::StudyTrial& best) {
  return best.trial.outcome.measurement()->tokens_per_second_per_device;
}

/// Under a heading of tokens.
std::string rate_cell(const Problem* problem, double rate) {
  const bool counts_tokens = problem == nullptr || rate_unit(*problem) == kTokenRate;
  return rate_text(rate) + (counts_tokens ? "" : " sequences");
}

std::vector<std::string> study_cells(const studies::StudySummary& study) {
  const std::string best =
      study.best
          ? fmt::format("{} (trial {})",
                        rate_cell(study.problem ? &*study.problem : nullptr, rate_of(*study.best)),
                        study.best->trial.number)
          : "-";
  return {study.name, study.problem ? where_text(*study.problem) : "(not made by planwright)", best,
          states_text(study.trials)};
}

/// The facts by which rows are filtered; nulls for a study that is not ours.
Json problem_columns(const Problem* problem) {
  Json row;
  row["model"] = problem ? Json(problem->model.name) : Json();
  row["device"] = problem ? Json(problem->cluster.device.name) : Json();
  row["devices"] = problem ? Json(problem->cluster.devices()) : Json();
  row["target"] = problem ? Json(problem->target) : Json();
  return row;
}

}  // namespace

std::string utc_text(double unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string studies_text(const std::vector<studies::StudySummary>& studies, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const studies::StudySummary& study : studies) rows.push_back(study_cells(study));
  return table_text({{"study", Align::left},
                     {"problem", Align::left},
                     {"best tokens/s/device", Align::right},
                     {"trials", Align::left}},
                    rows, paint);
}

Json studies_json(const std::vector<studies::StudySummary>& studies) {
  Json rows = Json::array();
  for (const studies::StudySummary& study : studies) {
    Json row{{"study", study.name}, {"ours", !study.problem_hash.empty()}};
    row["problem_hash"] = study.problem_hash;
    row.update(problem_columns(study.problem ? &*study.problem : nullptr));
    row["trials"] = study.trials;
    row["best_tokens_per_second_per_device"] = study.best ? Json(rate_of(*study.best)) : Json();
    row["best_number"] = study.best ? Json(study.best->trial.number) : Json();
    row["last_activity_unix_s"] =
        study.last_activity_unix_s ? Json(*study.last_activity_unix_s) : Json();
    rows.push_back(std::move(row));
  }
  return {{"schema", kSchema}, {"rows", std::move(rows)}};
}

std::string best_text(const std::vector<studies::StudyTrial>& trials, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const studies::StudyTrial& each : trials) {
    const Measurement& measured = *each.trial.outcome.measurement();
    rows.push_back({rate_cell(&each.problem, measured.tokens_per_second_per_device),
                    peak_text(measured.allocated_peak()), where_text(each.problem),
                    fmt::format("{} #{}", each.study, each.trial.number),
                    describe(each.trial.candidate)});
  }
  return table_text({{"tokens/s/device", Align::right},
                     {"peak GiB", Align::right},
                     {"problem", Align::left},
                     {"trial", Align::left},
                     {"plan", Align::left}},
                    rows, paint);
}

std::string trial_text(const studies::StudyTrial& shown, const Paint& paint) {
  const Trial& trial = shown.trial;
  return fmt::format("{} #{}, {} to {} UTC\nchosen: {}\n\n{}", shown.study, trial.number,
                     utc_text(trial.started_unix_s), utc_text(trial.finished_unix_s), trial.why,
                     probe_text(shown.problem, trial.candidate, trial.scope, trial.estimate,
                                trial.outcome, paint));
}

Json trial_rows_json(const std::vector<studies::StudyTrial>& trials) {
  Json rows = Json::array();
  for (const studies::StudyTrial& each : trials) {
    Json row{{"study", each.study}};
    row.update(problem_columns(&each.problem));
    row.update(to_json(each.trial));
    row["estimate"] = known_json(each.problem, each.trial.estimate);
    rows.push_back(std::move(row));
  }
  return {{"schema", kSchema}, {"rows", std::move(rows)}};
}

}  // namespace planwright::cli
