#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/print_table.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"
#include "launcher/target.h"
#include "search/tune.h"

/// The story of a tuning run and its result, for people and as JSON lines.
namespace planwright::cli {

/// Which candidate is probed, why, and what is expected of it.
std::string proposal_text(const Problem& problem, std::int64_t number, const Proposal& proposal,
                          const Paint& paint);
/// How it ended, below that; `numbered` if other proposals stand between.
std::string finished_text(const Trial& trial, bool numbered, const Paint& paint,
                          std::string_view rate_unit = kTokenRate);
/// Why it was given up.
std::string not_measured_text(std::int64_t number, const Outcome& outcome, bool numbered,
                              const Paint& paint);

Json probe_started_json(const Problem& problem, std::int64_t number, const Proposal& proposal);
Json probe_finished_json(const Problem& problem, const Trial& trial);
Json refit_json(const Calibration& calibration, const search::ModelError& error);

/// A finished run: the plan with its evidence, and where it is kept.
struct TuneResult {
  Plan plan;
  std::string storage;
  std::string study;
  std::int64_t tried = 0;           ///< candidates, of which some were probed again
  std::vector<std::string> emit{};  ///< the command that writes the files of the launch
  launcher::LaunchConfig launch{};  ///< of the winner, in the folder that `emit` names
};

std::string result_text(const Problem& problem, const TuneResult& result, const Paint& paint);
Json result_json(const Problem& problem, const TuneResult& result);

}  // namespace planwright::cli
