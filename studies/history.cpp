#include "studies/history.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "estimator/spec/error.h"
#include "studies/database.h"
#include "studies/optuna_map.h"
#include "studies/study_rows.h"
#include "studies/time_text.h"
#include "studies/trial_rows.h"

namespace planwright::studies {
namespace {

bool same_word(const std::string& wanted, const std::string& found) {
  return wanted.empty() || ::strcasecmp(wanted.c_str(), found.c_str()) == 0;
}

bool keeps(const HistoryFilter& filter, const std::optional<Problem>& problem) {
  if (!problem) return filter.model.empty() && filter.device.empty() && filter.target.empty();
  return same_word(filter.model, problem->model.name) &&
         same_word(filter.device, problem->cluster.device.name) &&
         same_word(filter.target, problem->target);
}

/// Feasible as Optuna means it: every constraint is a number that is not above zero.
bool feasible(const std::string& constraints) {
  const Json json = Json::parse(constraints, nullptr, false);
  if (!json.is_array()) return false;
  return std::all_of(json.begin(), json.end(),
                     [](const Json& each) { return each.is_number() && each.get<double>() <= 0; });
}

struct BestRow {
  std::int64_t trial_id = 0;
  std::int64_t number = 0;
  double value = 0;
};

/// Among the trials that Planwright stored.
std::optional<BestRow> best_row(Database& database, std::int64_t study) {
  Query query = database.query(
      "SELECT t.trial_id, t.number, v.value, c.value_json FROM trials t "
      "JOIN trial_values v ON v.trial_id = t.trial_id AND v.objective = 0 "
      "JOIN trial_system_attributes c ON c.trial_id = t.trial_id AND c.\"key\" = 'constraints' "
      "WHERE t.study_id = ? AND t.state = 'COMPLETE' AND EXISTS (SELECT 1 FROM "
      "trial_system_attributes a WHERE a.trial_id = t.trial_id AND a.\"key\" = ?) "
      "ORDER BY v.value DESC, t.number");
  query.with(study, kTrialKey);
  while (query.next()) {
    if (feasible(query.text(3))) return BestRow{query.integer(0), query.integer(1), query.real(2)};
  }
  return std::nullopt;
}

void count_trials(Database& database, std::int64_t study, StudySummary& into) {
  // Of a study that Optuna 4.9 or older made, these times are in the zone of whoever wrote them.
  Query query = database.query(
      "SELECT state, count(*), max(max(datetime_start, coalesce(datetime_complete, "
      "datetime_start))) "
      "FROM trials WHERE study_id = ? GROUP BY state");
  query.with(study);
  while (query.next()) {
    into.trials[query.text(0)] = query.integer(1);
    const auto last = unix_time(query.text(2));
    if (last)
      into.last_activity_unix_s = std::max(into.last_activity_unix_s.value_or(*last), *last);
  }
}

StudySummary summary(Database& database, const StudyRow& study) {
  StudySummary out;
  out.name = study.name;
  out.problem_hash = problem_of_study(database, study);
  count_trials(database, study.id, out);
  if (out.problem_hash.empty()) return out;
  out.problem = stored_problem(database, out.problem_hash);
  if (const auto best = best_row(database, study.id)) {
    out.best = best->value;
    out.best_number = best->number;
  }
  return out;
}

std::string source_of(const Store& store, const std::string& study, std::int64_t number) {
  return fmt::format("{}, study {}, trial {}", store.path(), study, number);
}

std::vector<std::string> our_studies(Database& database) {
  std::vector<std::string> names;
  for (const StudyRow& row : study_rows(database)) {
    if (!problem_of_study(database, row).empty()) names.push_back(row.name);
  }
  return names;
}

std::string chosen_name(const Store& store, const std::string& name) {
  if (!name.empty()) return name;
  const auto names = our_studies(store.database());
  if (names.size() == 1) return names.front();
  const std::string rule = names.empty()
                               ? "the file holds no study of Planwright's"
                               : "the file holds several studies; name one of " + join_words(names);
  throw InputError({store.path(), "--study", "", rule, ""});
}

StudyRef study_named(const Store& store, const std::string& name) {
  Database& database = store.database();
  const auto row = study_row(database, name);
  if (!row) {
    throw InputError({store.path(), "--study", name, "there is no such study",
                      nearest_word(name, our_studies(database))});
  }
  const std::string hash = problem_of_study(database, *row);
  if (hash.empty()) {
    throw InputError({store.path(), "--study", name, "was not made by Planwright", ""});
  }
  const auto problem = stored_problem(database, hash);
  if (!problem) {
    throw InputError({store.path(), "--study", name,
                      "its problem is not in this file; resume it once with `planwright tune`",
                      ""});
  }
  return {row->id, row->name, hash, *problem};
}

struct StateRow {
  std::string state;
  std::optional<std::string> trial;
};

StateRow state_row(const Store& store, const StudyRef& study, std::int64_t number) {
  Query query = store.database().query(
      "SELECT t.state, a.value_json FROM trials t LEFT JOIN trial_system_attributes a "
      "ON a.trial_id = t.trial_id AND a.\"key\" = ? WHERE t.study_id = ? AND t.number = ?");
  if (!query.with(kTrialKey, study.id, number).next()) return {};
  if (query.is_null(1)) return {query.text(0), std::nullopt};
  return {query.text(0), query.text(1)};
}

}  // namespace

std::vector<StudySummary> list_studies(Store& store, const HistoryFilter& filter) {
  if (store.empty()) return {};
  Database& database = store.database();
  return database.read([&] {
    std::vector<StudySummary> found;
    for (const StudyRow& row : study_rows(database)) {
      StudySummary each = summary(database, row);
      if (keeps(filter, each.problem)) found.push_back(std::move(each));
    }
    return found;
  });
}

std::optional<StudyTrial> best_trial(Store& store, const StudyRef& study) {
  Database& database = store.database();
  return database.read([&]() -> std::optional<StudyTrial> {
    const auto row = best_row(database, study.id);
    if (!row) return std::nullopt;
    const auto text = attribute(database, AttributeTable::trial_system, row->trial_id, kTrialKey);
    return StudyTrial{
        study.name, study.problem,
        read_trial(text.value_or(""), row->number, source_of(store, study.name, row->number))};
  });
}

std::vector<StudyTrial> best_trials(Store& store, const HistoryFilter& filter) {
  std::map<std::string, std::string> fastest;  // problem → study
  std::map<std::string, double> value;
  for (const StudySummary& each : list_studies(store, filter)) {
    if (!each.best || !each.problem) continue;
    const auto [at, is_new] = value.emplace(each.problem_hash, *each.best);
    if (!is_new && at->second >= *each.best) continue;
    at->second = *each.best;
    fastest[each.problem_hash] = each.name;
  }
  std::vector<StudyTrial> found;
  for (const auto& [hash, study] : fastest) {
    if (auto best = best_trial(store, find_study(store, study))) found.push_back(std::move(*best));
  }
  const auto rate = [](const StudyTrial& each) {
    const Measurement* measured = each.trial.outcome.measurement();
    return measured == nullptr ? 0 : measured->tokens_per_second_per_device;
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const auto& a, const auto& b) { return rate(a) > rate(b); });
  return found;
}

StudyTrial show_trial(Store& store, const StudyRef& study, std::int64_t number) {
  const StateRow row = store.database().read([&] { return state_row(store, study, number); });
  const auto refuse = [&](const std::string& rule) {
    throw InputError({store.path(), "trial", std::to_string(number), rule, ""});
  };
  if (row.state.empty()) refuse(fmt::format("the study \"{}\" has no such trial", study.name));
  if (row.state == word(TrialState::running)) refuse("is still running");
  if (!row.trial) refuse("was not stored by Planwright");
  return {study.name, study.problem,
          read_trial(*row.trial, number, source_of(store, study.name, number))};
}

StudyRef find_study(Store& store, const std::string& name) {
  if (store.empty()) throw InputError({store.path(), "", "", "holds no study yet", ""});
  return store.database().read([&] { return study_named(store, chosen_name(store, name)); });
}

}  // namespace planwright::studies
