#include "studies/store.h"

#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"
#include "studies/database.h"
#include "studies/optuna_map.h"
#include "studies/owner.h"
#include "studies/schema.h"
#include "studies/storage_path.h"
#include "studies/study_rows.h"
#include "studies/time_text.h"
#include "studies/trial_rows.h"

namespace planwright::studies {
namespace {

/// No probe is silent for so long; only for owners on hosts whose processes we cannot see.
constexpr double kForgottenAfterS = 24 * 3600.0;

double system_now() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_epoch).count();
}

StoreOptions complete(StoreOptions options) {
  if (!options.now) options.now = system_now;
  if (!options.network_file_system) options.network_file_system = network_file_system;
  return options;
}

std::string network_warning(const std::string& path, const std::string& network) {
  return fmt::format(
      "{} lies on {}, a network file system, whose locks cannot be relied on: it is kept with a "
      "rollback journal; let one process at a time use it, or give a --storage on a local disk",
      path, network);
}

constexpr const char* kUnreported = "the process that ran this probe ended before it could report";

/// What a trial is until it ends, and stays if its process does not live to tell.
Outcome unreported() {
  return {Failure{OutcomeKind::environment, kUnreported, "", std::nullopt}, {}};
}

Trial claimed_trial(const StudyRef& study, const Proposal& proposal, double now) {
  Trial trial;
  trial.problem_hash = study.problem_hash;
  trial.candidate = proposal.candidate;
  trial.scope = proposal.scope;
  trial.estimate = proposal.estimate;
  trial.why = proposal.why;
  trial.outcome = unreported();
  trial.started_unix_s = now;
  return trial;
}

Proposal proposal_of(const Trial& trial) {
  return {trial.candidate, trial.scope, trial.estimate, trial.why, 0};
}

void put_attributes(Database& database, const TrialRow& row, const Attributes& attributes) {
  for (const auto& [key, value] : attributes) {
    put_attribute(database, AttributeTable::trial_user, row.id, key, value);
  }
}

void put_trial(Database& database, const TrialRow& row, Trial trial) {
  trial.number = row.number;
  put_attribute(database, AttributeTable::trial_system, row.id, kTrialKey, to_json(trial));
}

TrialRow claim_row(Database& database, const StudyRef& study, const Trial& trial) {
  const TrialRow row =
      insert_running(database, study.id, optuna_parameters(trial.candidate), trial.started_unix_s);
  put_attributes(database, row, proposal_attributes(proposal_of(trial)));
  put_attribute(database, AttributeTable::trial_system, row.id, kOwnerKey, to_json(this_process()));
  put_trial(database, row, trial);
  return row;
}

struct RunningTrial {
  TrialRow row;
  Owner owner;
  std::optional<double> heartbeat_unix_s;
};

/// RUNNING trials that a Planwright claimed.
std::vector<RunningTrial> running_trials(Database& database, const StudyRef& study) {
  Query query = database.query(
      "SELECT t.trial_id, t.number, a.value_json, h.heartbeat FROM trials t "
      "JOIN trial_system_attributes a ON a.trial_id = t.trial_id AND a.\"key\" = ? "
      "LEFT JOIN trial_heartbeats h ON h.trial_id = t.trial_id "
      "WHERE t.study_id = ? AND t.state = 'RUNNING'");
  query.with(kOwnerKey, study.id);
  std::vector<RunningTrial> running;
  while (query.next()) {
    const auto owner = owner_from_json(Json::parse(query.text(2), nullptr, false));
    if (!owner) continue;
    running.push_back({{query.integer(0), query.integer(1)}, *owner, unix_time(query.text(3))});
  }
  return running;
}

bool is_gone(const RunningTrial& trial, const Owner& here, double now) {
  switch (owner_state(trial.owner, here)) {
    case OwnerState::alive:
      return false;
    case OwnerState::gone:
      return true;
    case OwnerState::elsewhere:
      break;
  }
  return trial.heartbeat_unix_s && now - *trial.heartbeat_unix_s > kForgottenAfterS;
}

void fail_row(Database& database, const TrialRow& row, double now) {
  put_attributes(database, row, outcome_attributes(unreported()));
  const auto stored = attribute(database, AttributeTable::trial_system, row.id, kTrialKey);
  Json trial = Json::parse(stored.value_or(""), nullptr, false);
  if (trial.is_object()) {
    trial["finished_unix_s"] = now;
    put_attribute(database, AttributeTable::trial_system, row.id, kTrialKey, trial);
  }
  finish_row(database, row, {TrialState::fail, std::nullopt, std::nullopt}, now);
}

struct StoredTrial {
  std::int64_t number = 0;
  std::string json;
};

std::vector<StoredTrial> finished_trials(Database& database, std::int64_t study) {
  Query query = database.query(
      "SELECT t.number, a.value_json FROM trials t "
      "JOIN trial_system_attributes a ON a.trial_id = t.trial_id AND a.\"key\" = ? "
      "WHERE t.study_id = ? AND t.state IN ('COMPLETE', 'PRUNED', 'FAIL') ORDER BY t.number");
  query.with(kTrialKey, study);
  std::vector<StoredTrial> found;
  while (query.next()) found.push_back({query.integer(0), query.text(1)});
  return found;
}

}  // namespace

Store::Store(std::unique_ptr<Database> database, StoreOptions options)
    : database_(std::move(database)), options_(std::move(options)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store Store::open(const std::string& path, OpenMode mode, StoreOptions given) {
  require_path(path, mode);
  StoreOptions options = complete(std::move(given));
  const std::string network = options.network_file_system(path);
  auto connection =
      std::make_unique<Database>(path, mode, options.busy_timeout_ms, !network.empty());
  Store store(std::move(connection), std::move(options));
  Database& database = *store.database_;
  const FileFinding finding = database.read([&] { return inspect(database); });
  require_usable(finding, path);
  store.empty_ = finding.kind != FileKind::current;
  if (mode == OpenMode::read_only) return store;
  if (!network.empty()) store.warnings_.push_back(network_warning(path, network));
  create_schema(database);
  store.empty_ = false;
  database.use_write_ahead_log();
  return store;
}

StudyRef Store::open_study(const std::string& name, const Problem& problem) {
  require_study_name(name, path());
  return database_->write([&] {
    const auto found = study_row(*database_, name);
    if (!found) return insert_study(*database_, name, problem);
    return resumed_study(*database_, *found, problem);
  });
}

void Store::keep_command(const StudyRef& study, const Json& command) {
  database_->write([&] {
    require_study(*database_, study);
    put_command(*database_, study, command);
  });
}

std::int64_t Store::claim(const StudyRef& study, const Proposal& proposal) {
  const Trial trial = claimed_trial(study, proposal, options_.now());
  return database_->write([&] {
    require_study(*database_, study);
    return claim_row(*database_, study, trial).number;
  });
}

std::int64_t Store::finish(const StudyRef& study, const Trial& trial) {
  const OptunaResult result = optuna_result(trial, capacity(study.problem));
  const double finished = trial.finished_unix_s > 0 ? trial.finished_unix_s : options_.now();
  return database_->write([&] {
    require_study(*database_, study);
    const auto claimed = running_row(*database_, study.id, trial.number);
    const TrialRow row = claimed ? *claimed : claim_row(*database_, study, trial);
    put_attributes(*database_, row, outcome_attributes(trial.outcome));
    put_trial(*database_, row, trial);
    finish_row(*database_, row, result, finished);
    return row.number;
  });
}

void Store::abandon(const StudyRef& study, std::int64_t number) {
  const double now = options_.now();
  database_->write([&] {
    const auto row = running_row(*database_, study.id, number);
    if (row) fail_row(*database_, *row, now);
  });
}

void Store::beat(const StudyRef& study, std::int64_t number) {
  database_->write([&] {
    const auto row = running_row(*database_, study.id, number);
    if (row) put_heartbeat(*database_, *row, options_.now());
  });
}

int Store::fail_dead_owners(const StudyRef& study) {
  const double now = options_.now();
  const Owner here = this_process();
  return database_->write([&] {
    int failed = 0;
    for (const RunningTrial& trial : running_trials(*database_, study)) {
      if (!is_gone(trial, here, now)) continue;
      fail_row(*database_, trial.row, now);
      ++failed;
    }
    return failed;
  });
}

std::vector<Trial> Store::trials(const StudyRef& study) {
  return trials_of({{study.id, study.name}});
}

std::vector<Trial> Store::trials_of_problem(const std::string& hash) {
  if (empty_) return {};
  return trials_of(database_->read([&] { return studies_of_problem(*database_, hash); }));
}

std::vector<Trial> Store::trials_of(const std::vector<StudyRow>& studies) {
  std::vector<Trial> trials;
  for (const StudyRow& study : studies) {
    const auto stored = database_->read([&] { return finished_trials(*database_, study.id); });
    for (const StoredTrial& each : stored) {
      try {
        trials.push_back(
            read_trial(each.json, each.number,
                       fmt::format("{}, study {}, trial {}", path(), study.name, each.number)));
      } catch (const InputError& error) {
        warnings_.push_back(fmt::format("{}; this trial is left out", error.what()));
      }
    }
  }
  return trials;
}

const std::string& Store::path() const { return database_->path(); }

Database& Store::database() const { return *database_; }

std::vector<std::string> Store::take_warnings() { return std::exchange(warnings_, {}); }

bool cut_short(const Trial& trial) {
  const Failure* failure = trial.outcome.failure();
  return failure != nullptr && failure->detail == kUnreported;
}

std::vector<Trial> conclusive_trials(Store& store, const StudyRef& study) {
  std::vector<Trial> trials = store.trials(study);
  trials.erase(std::remove_if(trials.begin(), trials.end(), cut_short), trials.end());
  return trials;
}

}  // namespace planwright::studies
