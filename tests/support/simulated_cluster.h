#pragma once

#include <cstdint>
#include <vector>

#include "estimator/price.h"
#include "estimator/spec/calibration.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"
#include "estimator/spec/trial.h"

/// Devices that are only arithmetic: what a plan really takes is its price under coefficients that
/// the tuner does not know, times an offset of its own that no coefficient explains.
namespace planwright::testing {

struct Simulation {
  double coefficient_shift = 1.0;  ///< truth is drawn this many prior deviations around the prior
  double offset = 0.05;            ///< deviation of a candidate's own ln(time)
  double noise = 0.01;             ///< deviation of a step's ln(time)
  double memory_factor = 1.0;      ///< true peak over the priced one
  double drift = 0;                ///< of ln(time) per second of the clock
  double start_seconds = 1.0;      ///< of the clock, before the first step
};

class SimulatedCluster {
 public:
  static constexpr double kBegin = 1.7e9;  ///< of the clock

  SimulatedCluster(Problem problem, TargetTraits traits, const Calibration& prior,
                   Simulation simulation, std::uint64_t seed);

  /// Runs a probe and moves the clock. Without drift the same whenever and however often it is
  /// asked.
  Outcome probe(const Proposal& proposal);
  /// Runs several, started once, a part of each one's steps in turn, every second round backwards.
  std::vector<Outcome> probe_in_turns(const std::vector<Proposal>& proposals, int rounds);
  double now() const { return now_; }

  /// Median step time of a candidate over infinitely many steps, drift apart.
  double true_step_time(const Candidate& candidate) const;
  bool truly_fits(const Candidate& candidate) const;

 private:
  struct Running;

  Bytes true_peak(const Candidate& candidate) const;
  void take_steps(Running& running, int steps);
  Outcome outcome_of(const Running& running) const;

  Problem problem_;
  TargetTraits traits_;
  estimator::Pricer truth_;
  Simulation simulation_;
  std::uint64_t seed_;
  double now_ = kBegin;
};

}  // namespace planwright::testing
