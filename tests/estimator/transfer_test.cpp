#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "estimator/calibrate.h"
#include "estimator/price.h"
#include "tests/support/fake_traits.h"

/// What trials of several problems teach for others of their target.
namespace planwright::estimator {
namespace {

using testing::data_parallel;

/// A target whose kernels are somebody else's, so that a factor of its activations is learned.
TargetTraits stand_in_target() {
  TargetTraits traits = testing::fake_traits();
  traits.stand_in_kernels = true;
  return traits;
}

Problem problem_of(int devices) {
  return testing::fake_problem(testing::tiny_llama(), devices, Precision::fp32);
}

Calibration prior_of(const Problem& problem) {
  return prior_calibration(problem, stand_in_target(), std::nullopt);
}

Bytes peak_of(const Problem& problem, const Calibration& calibration) {
  const Candidate candidate = data_parallel(problem.cluster.devices(), 0, 2);
  return estimate(problem, stand_in_target(), candidate, calibration).peak().accounts.allocated();
}

/// A run that took `factor` times what the prior expects.
Evidence evidence_of(const Problem& problem, double factor) {
  Evidence made{problem, {}};
  made.trial.problem_hash = problem_hash(problem);
  made.trial.candidate = data_parallel(problem.cluster.devices(), 0, 2);
  const double expected = static_cast<double>(peak_of(problem, prior_of(problem)).value);
  RankMeasurement rank;
  rank.whole_peak = Bytes{std::llround(factor * expected)};
  Measurement measured;
  measured.ranks = {rank};
  made.trial.outcome.value = measured;
  return made;
}

TEST(CalibrateAcross, LearnsFromProblemsThatDiffer) {
  const Calibration learned = calibrate_across(
      stand_in_target(), {evidence_of(problem_of(1), 1.5), evidence_of(problem_of(2), 1.5)});
  EXPECT_EQ(learned.observations, 2);
  const Problem other = problem_of(4);
  const double ratio =
      static_cast<double>(peak_of(other, transferred(learned, prior_of(other))).value) /
      static_cast<double>(peak_of(other, prior_of(other)).value);
  EXPECT_GT(ratio, 1.2);
  EXPECT_LT(ratio, 1.6);
}

/// A peak that is just the last stage's teaches nothing as such, and something as the fullest's.
TEST(CalibrateAcross, ComparesAPeakWithTheStageThatItIsOf) {
  Evidence seen = evidence_of(problem_of(2), 1);
  seen.trial.candidate.dp = 1;
  seen.trial.candidate.pp = 2;
  const Calibration prior = prior_of(seen.problem);
  const Estimate expected =
      price(seen.problem, stand_in_target(), seen.trial.candidate,
            quantify(seen.problem, stand_in_target(), seen.trial.candidate), prior);
  const std::size_t emptier = expected.peak_stage == 0 ? 1 : 0;
  RankMeasurement rank;
  rank.whole_peak = expected.stages[emptier].accounts.allocated();
  Measurement measured;
  measured.ranks = {rank};
  seen.trial.outcome.value = measured;
  const auto learned_shift = [&](std::optional<std::size_t> stage) {
    seen.stage = stage;
    double shift = 0;
    for (const Coefficient& c : calibrate_across(stand_in_target(), {seen}).coefficients) {
      shift = std::max(shift, std::abs(c.value - c.prior_mean));
    }
    return shift;
  };
  EXPECT_LT(learned_shift(emptier), 1e-5) << "a byte's rounding";
  EXPECT_GT(learned_shift(std::nullopt), 1e-4);
}

TEST(CalibrateAcross, KnowsTheCoefficientsOfAllProblems) {
  const Calibration learned = calibrate_across(
      stand_in_target(), {evidence_of(problem_of(1), 1), evidence_of(problem_of(2), 1)});
  const auto has = [&](const std::string& name) {
    return std::any_of(learned.coefficients.begin(), learned.coefficients.end(),
                       [&](const Coefficient& c) { return c.name == name; });
  };
  EXPECT_TRUE(has("activation_factor"));
  EXPECT_TRUE(has("link_latency"));  // of the two devices only
}

TEST(Transferred, LeavesWhatWasNotLearnedAsItWas) {
  const Problem problem = problem_of(2);
  const Calibration prior = prior_of(problem);
  EXPECT_EQ(transferred(Calibration{}, prior).coefficients, prior.coefficients);
  const Calibration same = transferred(prior, prior);
  for (std::size_t i = 0; i < prior.coefficients.size(); ++i) {
    EXPECT_NEAR(same.coefficients[i].value, prior.coefficients[i].value, 1e-12);
    EXPECT_NEAR(same.coefficients[i].sd, prior.coefficients[i].sd, 1e-12);
  }
  for (std::size_t i = 0; i < prior.covariance.size(); ++i) {
    EXPECT_NEAR(same.covariance[i], prior.covariance[i], 1e-12);
  }
}

TEST(Transferred, MovesByStandardDeviationsOfThePrior) {
  const Coefficient coefficient{.name = "fragmentation",
                                .transform = Transform::log,
                                .prior_mean = 1,
                                .prior_sd = 2,
                                .value = 3,
                                .sd = 1,
                                .source = ""};
  const Calibration learned{.coefficients = {coefficient}, .covariance = {1}};
  Coefficient other = coefficient;
  other.prior_mean = other.value = 10;
  other.prior_sd = other.sd = 0.5;
  const Calibration moved = transferred(learned, {.coefficients = {other}, .covariance = {0.25}});
  EXPECT_DOUBLE_EQ(moved.coefficients.front().value, 10.5);
  EXPECT_DOUBLE_EQ(moved.coefficients.front().sd, 0.25);
  EXPECT_DOUBLE_EQ(moved.covariance.front(), 0.0625);
}

/// One coefficient, `shift` of its prior's deviations off and `sd` of them wide.
Calibration shifted(double shift, double sd) {
  const Coefficient coefficient{.name = "fragmentation",
                                .transform = Transform::log,
                                .prior_mean = 1,
                                .prior_sd = 2,
                                .value = 1 + 2 * shift,
                                .sd = 2 * sd,
                                .source = ""};
  return {.coefficients = {coefficient}, .covariance = {4 * sd * sd}};
}

/// By hand: half of a prior's variance is between origins. One origin that is certain of a shift of
/// 1 moves the next by 0.5 / (0.5 + 0.5), and leaves it 0.25 + 0.5 of its variance; of two the mean
/// counts twice.
TEST(Pooled, ExpectsOfTheNextOriginWhatOthersHaveInCommon) {
  const Coefficient one = pooled({shifted(1, 1e-6)}).coefficients.front();
  EXPECT_NEAR(one.value, 1 + 2 * 0.5, 1e-6);
  EXPECT_NEAR(one.sd, 2 * std::sqrt(0.75), 1e-6);
  const Coefficient two = pooled({shifted(1, 1e-6), shifted(0, 1e-6)}).coefficients.front();
  EXPECT_NEAR(two.value, 1 + 2 * (2.0 / 3) * 0.5, 1e-6);
  EXPECT_NEAR(two.sd, 2 * std::sqrt(0.5 / 3 + 0.5), 1e-6);
}

TEST(Pooled, LearnsNothingFromAnOriginThatHasShownNothing) {
  const Coefficient same = pooled({shifted(0, 1)}).coefficients.front();
  EXPECT_NEAR(same.value, 1, 1e-12);
  EXPECT_NEAR(same.sd, 2, 1e-12);
  EXPECT_TRUE(pooled({}).coefficients.empty());
}

}  // namespace
}  // namespace planwright::estimator
