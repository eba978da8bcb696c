#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "estimator/spec/trial.h"
#include "studies/database.h"
#include "studies/optuna_map.h"

/// The rows that make up one trial. Everything here is called within Database::read or ::write.
namespace planwright::studies {

/// The system attribute that holds a whole Trial as JSON.
inline constexpr const char* kTrialKey = "planwright:trial";
/// The system attribute that names the process that runs a trial.
inline constexpr const char* kOwnerKey = "planwright:owner";

enum class AttributeTable { study_user, study_system, trial_user, trial_system };

/// JSON text that every reader accepts: bytes that are no UTF-8 (in a log) are replaced.
std::string json_text(const Json& json);

/// Sets an attribute of a study or trial, whether or not it is there.
void put_attribute(Database& database, AttributeTable table, std::int64_t owner,
                   const std::string& key, const Json& value);

/// The text of an attribute; nullopt if there is none.
std::optional<std::string> attribute(Database& database, AttributeTable table, std::int64_t owner,
                                     const std::string& key);

struct TrialRow {
  std::int64_t id = 0;
  std::int64_t number = 0;
};

/// A RUNNING row with the next number of the study, its parameters and a first heartbeat.
TrialRow insert_running(Database& database, std::int64_t study,
                        const std::vector<OptunaParameter>& parameters, double started_unix_s);

/// The row of a trial that is still RUNNING; nullopt if there is none with this number.
std::optional<TrialRow> running_row(Database& database, std::int64_t study, std::int64_t number);

void put_heartbeat(Database& database, const TrialRow& row, double unix_s);

/// Values and constraints first, then the state: what Optuna sees finished is complete.
void finish_row(Database& database, const TrialRow& row, const OptunaResult& result,
                double finished_unix_s);

/// A stored Trial under the number of its row; an InputError that names `source` if the text is
/// none.
Trial read_trial(const std::string& text, std::int64_t number, const std::string& source);

}  // namespace planwright::studies
