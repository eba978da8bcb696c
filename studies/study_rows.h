#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/problem.h"
#include "studies/database.h"
#include "studies/store.h"

/// The rows that make up one study, its trials apart. Everything here but `require_study_name` is
/// called within Database::read or ::write.
namespace planwright::studies {

/// InputError if Optuna or another database could not hold the name.
void require_study_name(const std::string& name, const std::string& path);

/// nullopt if there is no study of that name.
std::optional<StudyRow> study_row(Database& database, const std::string& name);

/// All of them, by name.
std::vector<StudyRow> study_rows(Database& database);

/// The hash of the problem that a study was made for; "" if it is not ours.
std::string problem_of_study(Database& database, const StudyRow& study);

/// Those of ours that were made for that problem, by study id.
std::vector<StudyRow> studies_of_problem(Database& database, const std::string& hash);

/// The problem with that hash; nullopt if this file does not hold it, as after a copy by Optuna.
std::optional<Problem> stored_problem(Database& database, const std::string& hash);

/// A new study with its direction, names and problem.
StudyRef insert_study(Database& database, const std::string& name, const Problem& problem);

/// The study as it was left; an InputError if it is somebody else's or holds another problem.
StudyRef resumed_study(Database& database, const StudyRow& study, const Problem& problem);

/// What Store::keep_command keeps, as JSON text; nullopt if it never did.
void put_command(Database& database, const StudyRef& study, const Json& command);
std::optional<std::string> stored_command(Database& database, const StudyRef& study);

/// An InputError that names the first difference if `hash` is not the hash of `problem`.
void require_problem(Database& database, const std::string& study, const std::string& hash,
                     const Problem& problem);

/// WorldError if somebody has deleted the study meanwhile: its id may be another study's by now.
void require_study(Database& database, const StudyRef& study);

}  // namespace planwright::studies
