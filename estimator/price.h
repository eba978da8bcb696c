#pragma once

#include <memory>

#include "estimator/quantities.h"
#include "estimator/spec/calibration.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/rules.h"
#include "estimator/spec/target_traits.h"

/// What quantities cost under what has been learned.
namespace planwright::estimator {

/// What ranking needs of an Estimate: numbers only.
struct Figures {
  Bytes allocated;  ///< peak inside the allocator, worst rank
  Bytes judged;     ///< what is held against the capacity: `allocated` on a CPU, the least that the
                    ///< device can hold on an accelerator
  Phase phase = Phase::load;
  bool fits = false;  ///< judged at the mean
  Seconds step_time;
  double memory_rel = 0;  ///< relative sd of `allocated`
  double time_rel = 0;    ///< relative sd of `step_time`
  double fit_probability = 0;
  bool operator==(const Figures&) const = default;
};

/// Prices many candidates under one Calibration.
class Pricer {
 public:
  Pricer(const Problem& problem, const TargetTraits& traits, const Calibration& calibration);
  ~Pricer();
  Pricer(Pricer&&) noexcept;
  Pricer& operator=(Pricer&&) noexcept;

  /// The hot path: no texts, no allocation.
  Figures figures(const Quantities& quantities) const;

  /// Everything. When it does not fit, `reason` names account, rank, phase, shortfall and the
  /// smallest change that would fit, which is searched for: some hundred times slower.
  Estimate estimate(const Candidate& candidate, const Quantities& quantities) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One candidate's. For many, a Pricer.
Estimate price(const Problem& problem, const TargetTraits& traits, const Candidate& candidate,
               const Quantities& quantities, const Calibration& calibration);

/// Of a candidate that breaks a rule.
Estimate invalid_estimate(const Problem& problem, const BrokenRule& broken,
                          const Calibration& calibration);

/// Quantifies and prices a legal candidate; an illegal one is `invalid`, with the rule's text and
/// fix as its reason and nothing else filled in but the parameter counts.
Estimate estimate(const Problem& problem, const TargetTraits& traits, const Candidate& candidate,
                  const Calibration& calibration);

}  // namespace planwright::estimator
