#pragma once

#include <cstdint>

#include "cli/console.h"
#include "cli/problem_input.h"
#include "search/tune.h"
#include "studies/store.h"

namespace planwright::cli {

/// The world of one tuning run: what its loop asks for is done on the devices, kept in the store
/// and told on the console. Lives as long as the loop.
class TuneSession {
 public:
  TuneSession(const ProblemInput& input, studies::Store& store, studies::StudyRef study,
              launcher::RunOptions options, const Console& console, std::uint64_t seed);

  search::TuneHooks hooks();

 private:
  /// Claims a row first. An interrupted probe comes back as a failure, its row closed.
  Outcome probe(const Proposal& proposal);
  Outcome run(const Proposal& proposal);
  void record(Trial& trial);
  void refitted(const Calibration& calibration, const search::ModelError& error);
  void keep_alive();

  const ProblemInput& input_;
  studies::Store& store_;
  studies::StudyRef study_;
  launcher::RunOptions options_;
  const Console& console_;
  std::uint64_t seed_;
  std::int64_t number_ = -1;  ///< of the trial that runs
  double last_beat_s_ = 0;
};

}  // namespace planwright::cli
