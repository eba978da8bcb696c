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
  double start_seconds = 1.0;      ///< of the clock, before the first step
};

class SimulatedCluster {
 public:
  SimulatedCluster(Problem problem, TargetTraits traits, const Calibration& prior,
                   Simulation simulation, std::uint64_t seed);

  /// Runs a probe and moves the clock. The same whenever and however often it is asked.
  Outcome probe(const Proposal& proposal);
  double now() const { return now_; }

  /// Median step time of a candidate over infinitely many steps.
  double true_step_time(const Candidate& candidate) const;
  bool truly_fits(const Candidate& candidate) const;

 private:
  Bytes true_peak(const Candidate& candidate) const;

  Problem problem_;
  TargetTraits traits_;
  estimator::Pricer truth_;
  Simulation simulation_;
  std::uint64_t seed_;
  double now_ = 1.7e9;
};

}  // namespace planwright::testing
