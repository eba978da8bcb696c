#pragma once

#include <cstdint>
#include <set>
#include <string>
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
  /// A trial that was claimed and is neither recorded nor given up yet.
  struct OpenTrial {
    std::int64_t number = -1;
    Candidate candidate;
  };

  /// The devices are this session's until no trial of the round is open. Nothing is new if a signal
  /// comes while it waits for them.
  std::vector<Trial> begin_round();
  /// Claims a row for each first. A probe that was interrupted, or that this host could not carry
  /// out, comes back as a failure of the environment, its row closed.
  std::vector<Outcome> probe(const std::vector<Proposal>& proposals);
  void claim(const Proposal& proposal);
  std::vector<Outcome> run(const std::vector<Proposal>& proposals);
  std::vector<Outcome> run_or_abandon(const std::vector<Proposal>& proposals);
  void give_up(const Proposal& proposal, const Outcome& outcome);
  void record(Trial& trial);
  /// Its number; the trial is open no more.
  std::int64_t take_open(const Candidate& candidate);
  std::string title() const;
  void refitted(const Calibration& calibration, const search::ModelError& error);
  void keep_alive();

  const ProblemInput& input_;
  studies::Store& store_;
  studies::StudyRef study_;
  launcher::RunOptions options_;
  const Console& console_;
  std::uint64_t seed_;
  std::vector<OpenTrial> open_;
  bool together_ = false;  ///< the round has several trials
  double last_beat_s_ = 0;
  std::set<std::int64_t> known_;  ///< numbers of the trials that the loop has
  launcher::DeviceLock devices_;
};

}  // namespace planwright::cli
