#pragma once

#include <optional>
#include <vector>

#include "estimator/spec/calibration.h"
#include "estimator/spec/host_rates.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"
#include "estimator/spec/trial.h"

/// What measurements teach the price function.
namespace planwright::estimator {

/// What is believed before the first probe: the host's measured rates where there are any,
/// otherwise the device's data sheet and the priors of estimator/data/priors.csv, widely spread.
/// Coefficients that do not apply (a device context on a CPU) are left out.
Calibration prior_calibration(const Problem& problem, const TargetTraits& traits,
                              const std::optional<HostRates>& rates);

/// The prior corrected by every trial of this very problem that ran in full: step times and peaks
/// of those that ended well, and of those that ran out of memory that the peak is at least what
/// they asked for. Other ends teach nothing. Same trials, same result, whatever their order.
Calibration calibrate(const Problem& problem, const TargetTraits& traits, const Calibration& prior,
                      const std::vector<Trial>& trials);

/// A trial beside the problem that it is of.
struct Evidence {
  Problem problem;
  Trial trial;
  std::optional<std::size_t> stage{};  ///< whose peaks were seen; absent: the fullest's
};

/// What trials of any problems of one target teach together, beyond the data sheets' priors: every
/// coefficient is as many standard deviations of its own prior off in each of them. They are taken
/// to be of one origin: the same software, run by the same people on the same kind of data.
Calibration calibrate_across(const TargetTraits& traits, const std::vector<Evidence>& evidence);

/// What several origins' calibrations of one target teach for an origin that has shown nothing:
/// coefficients are what the origins have in common, spread by what they differ in, uncorrelated;
/// the noise is that of the least regular. Source: Gelman et al., Bayesian Data Analysis, 5.4.
Calibration pooled(const std::vector<Calibration>& learned);

/// `prior` moved and narrowed as `learned` was against its own prior, coefficient by coefficient:
/// how what is learned from other problems of the target is handed on. A coefficient that `learned`
/// does not have stays as it is.
Calibration transferred(const Calibration& learned, const Calibration& prior);

/// Median of |log(measured / predicted)| over the trials that `calibrate` learns from; absent when
/// there is none.
std::optional<double> median_time_error(const Problem& problem, const TargetTraits& traits,
                                        const Calibration& calibration,
                                        const std::vector<Trial>& trials);
/// The same of the allocated peak.
std::optional<double> median_memory_error(const Problem& problem, const TargetTraits& traits,
                                          const Calibration& calibration,
                                          const std::vector<Trial>& trials);

}  // namespace planwright::estimator
