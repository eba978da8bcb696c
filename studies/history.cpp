#include "studies/history.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "estimator/spec/error.h"
#include "studies/best_trial.h"
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

bool keeps(const HistoryFilter& filter, const StudySummary& study) {
  if (!filter.study.empty() && filter.study != study.name) return false;
  const auto& problem = study.problem;
  if (!problem) return filter.model.empty() && filter.device.empty() && filter.target.empty();
  const DeviceSpec& device = problem->cluster.device;
  return same_word(filter.model, problem->model.name) &&
         (same_word(filter.device, device.name) ||
          same_word(filter.device, std::string(word(device.kind)))) &&
         same_word(filter.target, problem->target);
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
  if (!out.problem_hash.empty()) out.problem = stored_problem(database, out.problem_hash);
  return out;
}

double rate(const StudyTrial& each) {
  return each.trial.outcome.measurement()->tokens_per_second_per_device;
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

/// Which numbers a study's trials have: Optuna counts from 0, without a gap.
std::string numbers_text(const Store& store, const StudyRef& study) {
  Query query = store.database().query("SELECT count(*) FROM trials WHERE study_id = ?");
  query.with(study.id).next();
  const std::int64_t count = query.integer(0);
  if (count == 0) return "has no trials yet";
  return count == 1 ? "has trial 0 only" : fmt::format("has trials 0 to {}", count - 1);
}

}  // namespace

std::vector<StudySummary> list_studies(Store& store, const HistoryFilter& filter) {
  if (store.empty()) return {};
  Database& database = store.database();
  std::vector<StudySummary> found = database.read([&] {
    std::vector<StudySummary> all;
    for (const StudyRow& row : study_rows(database)) {
      StudySummary each = summary(database, row);
      if (keeps(filter, each)) all.push_back(std::move(each));
    }
    return all;
  });
  for (StudySummary& each : found) {
    if (each.problem) each.best = best_trial(store, find_study(store, each.name));
  }
  return found;
}

std::optional<StudyTrial> best_trial(Store& store, const StudyRef& study) {
  const std::vector<Trial> trials = store.trials(study);
  const Trial* best = best_trial(study.problem, trials);
  if (best == nullptr) return std::nullopt;
  return StudyTrial{study.name, study.problem, *best};
}

std::vector<StudyTrial> best_trials(Store& store, const HistoryFilter& filter) {
  std::map<std::string, StudyTrial> fastest;  // by problem
  for (StudySummary& each : list_studies(store, filter)) {
    if (!each.best) continue;
    const auto [at, is_new] = fastest.try_emplace(each.problem_hash, *each.best);
    if (!is_new && rate(*each.best) > rate(at->second)) at->second = std::move(*each.best);
  }
  std::vector<StudyTrial> found;
  for (auto& [hash, best] : fastest) found.push_back(std::move(best));
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return rate(a) > rate(b); });
  return found;
}

StudyTrial show_trial(Store& store, const StudyRef& study, std::int64_t number) {
  Database& database = store.database();
  const StateRow row = database.read([&] { return state_row(store, study, number); });
  const auto refuse = [&](const std::string& rule) {
    throw InputError({store.path(), "trial", std::to_string(number), rule, ""});
  };
  if (row.state.empty()) {
    refuse(fmt::format("is not there: the study \"{}\" {}", study.name,
                       database.read([&] { return numbers_text(store, study); })));
  }
  if (row.state == word(TrialState::running)) refuse("is still running");
  if (!row.trial) refuse("was not stored by Planwright");
  return {study.name, study.problem,
          read_trial(*row.trial, number, source_of(store, study.name, number))};
}

StudyRef find_study(Store& store, const std::string& name) {
  if (store.empty()) throw InputError({store.path(), "", "", "holds no study yet", ""});
  return store.database().read([&] { return study_named(store, chosen_name(store, name)); });
}

StudyRef find_study(Store& store, const std::string& name, const Problem& problem) {
  StudyRef study = find_study(store, name);
  Database& database = store.database();
  database.read([&] { require_problem(database, study.name, study.problem_hash, problem); });
  return study;
}

Json kept_command(Store& store, const StudyRef& study) {
  Database& database = store.database();
  const auto text = database.read([&] { return stored_command(database, study); });
  return text ? parse_json(*text, fmt::format("{}, study {}", store.path(), study.name)) : Json();
}

}  // namespace planwright::studies
