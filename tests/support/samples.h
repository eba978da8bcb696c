#pragma once

#include "estimator/spec/calibration.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/host_rates.h"
#include "estimator/spec/outcome.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"

/// Hand-off values in which no field has its default, for tests of what must not lose any.
namespace planwright::testing {

Problem sample_problem();
Candidate sample_candidate();
Calibration sample_calibration();
HostRates sample_rates();

/// `on_device`: reserved and device figures and the accounts outside the allocator are there.
Estimate sample_estimate(bool on_device);
RankMeasurement sample_rank(int rank, bool on_device);
Outcome measured_outcome(bool on_device);
Outcome full_device_outcome();
Outcome failed_outcome(OutcomeKind kind);

Trial sample_trial();

}  // namespace planwright::testing
