#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"
#include "studies/store.h"

/// Questions to a file of studies; none of them changes it.
namespace planwright::studies {

/// Each field keeps the studies whose problem names it so, case aside; empty keeps all. `device` is
/// a name or a kind, `study` is the exact name.
struct HistoryFilter {
  std::string model{}, device{}, target{}, study{};
};

struct StudyTrial {
  std::string study;
  Problem problem;
  Trial trial;
};

struct StudySummary {
  std::string name;
  std::string problem_hash;        ///< empty: made by somebody else; listed, never planned with
  std::optional<Problem> problem;  ///< absent if it is not ours, or was copied here by Optuna
  std::map<std::string, std::int64_t> trials;  ///< by Optuna's name of the state
  std::optional<StudyTrial> best;
  std::optional<double> last_activity_unix_s;
};

/// By name. Any filter but `study` leaves out the studies that are not ours.
std::vector<StudySummary> list_studies(Store& store, const HistoryFilter& filter = {});

/// The best of each problem over all its studies, fastest first.
std::vector<StudyTrial> best_trials(Store& store, const HistoryFilter& filter = {});

/// What a study stands for (studies/best_trial.h); nullopt if nothing was measured.
std::optional<StudyTrial> best_trial(Store& store, const StudyRef& study);

/// Trial `number` of the study. An InputError that says what there is, if it is not there, still
/// runs, or was not stored by Planwright.
StudyTrial show_trial(Store& store, const StudyRef& study, std::int64_t number);

/// The study with that name; with an empty name, the only one of ours in the file. An InputError
/// that names the nearest one, or those to choose from, otherwise.
StudyRef find_study(Store& store, const std::string& name);

/// The same; an InputError that names the first difference if it was made for another problem.
StudyRef find_study(Store& store, const std::string& name, const Problem& problem);

/// What Store::keep_command kept; null if nothing, as in a study of an earlier version.
Json kept_command(Store& store, const StudyRef& study);

}  // namespace planwright::studies
