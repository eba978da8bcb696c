#include "studies/study_rows.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"
#include "studies/optuna_map.h"
#include "studies/problem_diff.h"
#include "studies/trial_rows.h"

namespace planwright::studies {
namespace {

constexpr const char* kProblemKey = "planwright:problem";
constexpr const char* kCommandKey = "planwright:command";

/// Of the column in every database but SQLite, where it is not enforced.
constexpr std::size_t kMaxName = 512;

void store_problem(Database& database, const std::string& hash, const Problem& problem) {
  database.query("INSERT OR IGNORE INTO planwright_problems VALUES (?, ?)")
      .with(hash, json_text(to_json(problem)))
      .run();
}

/// For people who look at the study with Optuna's tools.
void describe_study(Database& database, std::int64_t study, const Problem& problem) {
  const auto user = [&](const char* key, const Json& value) {
    put_attribute(database, AttributeTable::study_user, study, key, value);
  };
  user("planwright:model", problem.model.name);
  user("planwright:device", problem.cluster.device.name);
  user("planwright:devices", problem.cluster.devices());
  user("planwright:target", problem.target);
  user("planwright:constraints", Json::array({kConstraint}));
  user("planwright:times", "UTC");
  put_attribute(database, AttributeTable::study_system, study, "study:metric_names",
                Json::array({kObjective}));
}

[[noreturn]] void refuse_problem(Database& database, const std::string& study,
                                 const std::string& hash, const Problem& problem) {
  const auto stored = stored_problem(database, hash);
  const auto difference =
      stored ? first_difference(to_json(problem), to_json(*stored)) : std::nullopt;
  if (!difference) {
    throw InputError(
        {database.path(), "--study", study,
         "holds another problem, whose hash is " + hash.substr(0, 12) + "; give another --study",
         ""});
  }
  throw InputError({database.path(), difference->path, difference->left,
                    fmt::format("the study \"{}\" was made with {}; give another --study for this "
                                "problem",
                                study, difference->right),
                    ""});
}

}  // namespace

void require_study_name(const std::string& name, const std::string& path) {
  if (name.empty()) throw InputError({path, "--study", "", "must not be empty", ""});
  if (name.size() > kMaxName) {
    throw InputError({path, "--study", name.substr(0, 40) + "...",
                      fmt::format("must not be longer than {} bytes", kMaxName), ""});
  }
}

std::optional<StudyRow> study_row(Database& database, const std::string& name) {
  Query query = database.query("SELECT study_id, study_name FROM studies WHERE study_name = ?");
  if (!query.with(name).next()) return std::nullopt;
  return StudyRow{query.integer(0), query.text(1)};
}

std::vector<StudyRow> study_rows(Database& database) {
  Query query = database.query("SELECT study_id, study_name FROM studies ORDER BY study_name");
  std::vector<StudyRow> rows;
  while (query.next()) rows.push_back({query.integer(0), query.text(1)});
  return rows;
}

std::string problem_of_study(Database& database, const StudyRow& study) {
  const auto text = attribute(database, AttributeTable::study_user, study.id, kProblemKey);
  const Json hash = Json::parse(text.value_or(""), nullptr, false);
  return hash.is_string() ? hash.get<std::string>() : "";
}

std::vector<StudyRow> studies_of_problem(Database& database, const std::string& hash) {
  Query query = database.query(
      "SELECT s.study_id, s.study_name FROM studies s JOIN study_user_attributes a "
      "ON a.study_id = s.study_id AND a.\"key\" = ? WHERE a.value_json = ? ORDER BY s.study_id");
  query.with(kProblemKey, json_text(hash));
  std::vector<StudyRow> rows;
  while (query.next()) rows.push_back({query.integer(0), query.text(1)});
  return rows;
}

std::optional<Problem> stored_problem(Database& database, const std::string& hash) {
  if (!database.has_table("planwright_problems")) return std::nullopt;
  Query query = database.query("SELECT json FROM planwright_problems WHERE hash = ?");
  if (!query.with(hash).next()) return std::nullopt;
  const std::string source = fmt::format("{}, problem {}", database.path(), hash.substr(0, 12));
  return problem_from_json(parse_json(query.text(0), source), source);
}

StudyRef insert_study(Database& database, const std::string& name, const Problem& problem) {
  database.query("INSERT INTO studies (study_name) VALUES (?)").with(name).run();
  StudyRef study{database.last_row(), name, problem_hash(problem), problem};
  database.query("INSERT INTO study_directions (direction, study_id, objective) VALUES (?, ?, 0)")
      .with(kDirection, study.id)
      .run();
  store_problem(database, study.problem_hash, problem);
  put_attribute(database, AttributeTable::study_user, study.id, kProblemKey, study.problem_hash);
  describe_study(database, study.id, problem);
  return study;
}

void put_command(Database& database, const StudyRef& study, const Json& command) {
  put_attribute(database, AttributeTable::study_user, study.id, kCommandKey, command);
}

std::optional<std::string> stored_command(Database& database, const StudyRef& study) {
  return attribute(database, AttributeTable::study_user, study.id, kCommandKey);
}

void require_problem(Database& database, const std::string& study, const std::string& hash,
                     const Problem& problem) {
  if (hash != problem_hash(problem)) refuse_problem(database, study, hash, problem);
}

StudyRef resumed_study(Database& database, const StudyRow& study, const Problem& problem) {
  const std::string hash = problem_of_study(database, study);
  if (hash.empty()) {
    throw InputError({database.path(), "--study", study.name,
                      "was not made by Planwright and is left alone; give another name", ""});
  }
  require_problem(database, study.name, hash, problem);
  store_problem(database, hash, problem);
  return {study.id, study.name, hash, problem};
}

void require_study(Database& database, const StudyRef& study) {
  const auto found = study_row(database, study.name);
  if (found && found->id == study.id) return;
  throw WorldError(fmt::format("{}: the study \"{}\" has been deleted or renamed meanwhile",
                               database.path(), study.name));
}

}  // namespace planwright::studies
