#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "cli/console.h"
#include "cli/problem_input.h"
#include "launcher/device_lock.h"
#include "search/tune.h"
#include "studies/store.h"

namespace planwright::cli {

/// The world of one tuning run: what its loop asks for is done on the devices, kept in the store
/// and told on the console. Lives as long as the loop.
class TuneSession {
 public:
  /// `history`: the trials that the loop begins with.
  TuneSession(const ProblemInput& input, studies::Store& store, studies::StudyRef study,
              const std::vector<Trial>& history, launcher::RunOptions options,
              const Console& console, std::uint64_t seed);

  search::TuneHooks hooks();

 private:
  /// The devices are this session's until the trial is recorded or given up. Nothing is new if a
  /// signal comes while it waits for them.
  std::vector<Trial> begin_round();
  /// Claims a row first. A probe that was interrupted, or that this host could not carry out, comes
  /// back as a failure of the environment, its row closed.
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
  std::set<std::int64_t> known_;  ///< numbers of the trials that the loop has
  launcher::DeviceLock devices_;
};

}  // namespace planwright::cli
