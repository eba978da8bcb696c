#include "studies/trial_rows.h"

#include <array>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "studies/time_text.h"

namespace planwright::studies {
namespace {

struct AttributeSql {
  const char* put;
  const char* get;
};

// In the order of AttributeTable.
constexpr std::array<AttributeSql, 4> kAttributeSql{{
    {"INSERT INTO study_user_attributes (study_id, \"key\", value_json) VALUES (?, ?, ?) "
     "ON CONFLICT (study_id, \"key\") DO UPDATE SET value_json = excluded.value_json",
     "SELECT value_json FROM study_user_attributes WHERE study_id = ? AND \"key\" = ?"},
    {"INSERT INTO study_system_attributes (study_id, \"key\", value_json) VALUES (?, ?, ?) "
     "ON CONFLICT (study_id, \"key\") DO UPDATE SET value_json = excluded.value_json",
     "SELECT value_json FROM study_system_attributes WHERE study_id = ? AND \"key\" = ?"},
    {"INSERT INTO trial_user_attributes (trial_id, \"key\", value_json) VALUES (?, ?, ?) "
     "ON CONFLICT (trial_id, \"key\") DO UPDATE SET value_json = excluded.value_json",
     "SELECT value_json FROM trial_user_attributes WHERE trial_id = ? AND \"key\" = ?"},
    {"INSERT INTO trial_system_attributes (trial_id, \"key\", value_json) VALUES (?, ?, ?) "
     "ON CONFLICT (trial_id, \"key\") DO UPDATE SET value_json = excluded.value_json",
     "SELECT value_json FROM trial_system_attributes WHERE trial_id = ? AND \"key\" = ?"},
}};

const AttributeSql& sql_of(AttributeTable table) {
  return kAttributeSql[static_cast<std::size_t>(table)];
}

std::string state_name(TrialState state) { return std::string(word(state)); }

}  // namespace

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void put_attribute(Database& database, AttributeTable table, std::int64_t owner,
                   const std::string& key, const Json& value) {
  database.query(sql_of(table).put).with(owner, key, json_text(value)).run();
}

std::optional<std::string> attribute(Database& database, AttributeTable table, std::int64_t owner,
                                     const std::string& key) {
  Query query = database.query(sql_of(table).get);
  if (!query.with(owner, key).next()) return std::nullopt;
  return query.text(0);
}

TrialRow insert_running(Database& database, std::int64_t study,
                        const std::vector<OptunaParameter>& parameters, double started_unix_s) {
  TrialRow row;
  {
    Query count = database.query("SELECT count(*) FROM trials WHERE study_id = ?");
    count.with(study).next();
    row.number = count.integer(0);
  }
  database.query("INSERT INTO trials (number, study_id, state, datetime_start) VALUES (?, ?, ?, ?)")
      .with(row.number, study, state_name(TrialState::running), time_text(started_unix_s))
      .run();
  row.id = database.last_row();
  for (const OptunaParameter& parameter : parameters) {
    database
        .query(
            "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) "
            "VALUES (?, ?, ?, ?)")
        .with(row.id, parameter.name, parameter.internal, parameter.distribution)
        .run();
  }
  put_heartbeat(database, row, started_unix_s);
  return row;
}

std::optional<TrialRow> running_row(Database& database, std::int64_t study, std::int64_t number) {
  Query query = database.query(
      "SELECT trial_id FROM trials WHERE study_id = ? AND number = ? AND state = 'RUNNING'");
  if (!query.with(study, number).next()) return std::nullopt;
  return TrialRow{query.integer(0), number};
}

void put_heartbeat(Database& database, const TrialRow& row, double unix_s) {
  database
      .query(
          "INSERT INTO trial_heartbeats (trial_id, heartbeat) VALUES (?, ?) "
          "ON CONFLICT (trial_id) DO UPDATE SET heartbeat = excluded.heartbeat")
      .with(row.id, time_text(unix_s))
      .run();
}

void finish_row(Database& database, const TrialRow& row, const OptunaResult& result,
                double finished_unix_s) {
  if (result.value) {
    database
        .query(
            "INSERT INTO trial_values (trial_id, objective, value, value_type) "
            "VALUES (?, 0, ?, 'FINITE')")
        .with(row.id, *result.value)
        .run();
  }
  if (result.constraint) {
    put_attribute(database, AttributeTable::trial_system, row.id, "constraints",
                  Json::array({result.constraint->value}));
  }
  // A clock that was set back must not end a trial before it began.
  database
      .query(
          "UPDATE trials SET state = ?, datetime_complete = max(?, datetime_start) "
          "WHERE trial_id = ?")
      .with(state_name(result.state), time_text(finished_unix_s), row.id)
      .run();
}

Trial read_trial(const std::string& text, std::int64_t number, const std::string& source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw InputError({source, "", "", "is not JSON", ""});
  Trial trial = trial_from_json(json, source);
  trial.number = number;
  return trial;
}

}  // namespace planwright::studies
