#include "estimator/normal.h"

#include <gtest/gtest.h>

namespace planwright::estimator {
namespace {

/// Source: Abramowitz and Stegun, table 26.1.
TEST(Normal, DistributionFunctionHasTheTabulatedValues) {
  EXPECT_DOUBLE_EQ(normal_cdf(0), 0.5);
  EXPECT_NEAR(normal_cdf(1), 0.841344746068543, 1e-14);
  EXPECT_NEAR(normal_cdf(-2), 0.022750131948179, 1e-14);
  EXPECT_NEAR(normal_cdf(5), 0.999999713348428, 1e-14);
}

TEST(Normal, LogarithmIsContinuousWhereTheSeriesTakesOver) {
  EXPECT_NEAR(log_normal_cdf(-7.999999), log_normal_cdf(-8.000001), 1e-4);
  EXPECT_NEAR(log_normal_cdf(-1), std::log(0.158655253931457), 1e-13);
}

TEST(Normal, LogarithmIsFiniteFarBelowWhereTheFunctionUnderflows) {
  // -z²/2 - log(z √(2π)) to leading order.
  EXPECT_NEAR(log_normal_cdf(-100), -5000 - std::log(100 * std::sqrt(2 * M_PI)), 1e-3);
}

TEST(Normal, SlopesAgreeWithDifferences) {
  for (const double z : {-30.0, -9.0, -3.0, -0.5, 0.0, 1.0, 3.0}) {
    const double step = 1e-5;
    const double log_slope = (log_normal_cdf(z + step) - log_normal_cdf(z - step)) / (2 * step);
    EXPECT_NEAR(log_normal_cdf_slope(z), log_slope, 1e-4 * std::abs(log_slope) + 1e-8) << z;
    const double slope = (censored_residual(z + step) - censored_residual(z - step)) / (2 * step);
    EXPECT_NEAR(censored_residual_slope(z), slope, 1e-4 * std::abs(slope) + 1e-8) << z;
  }
}

TEST(CensoredResidual, VanishesBeyondTheBoundAndGrowsLikeAnErrorBelowIt) {
  EXPECT_NEAR(censored_residual(8), 0, 1e-6);
  EXPECT_NEAR(censored_residual(0), std::sqrt(2 * std::log(2.0)), 1e-15);
  EXPECT_NEAR(censored_residual(-50) / 50, 1, 0.01);
  EXPECT_EQ(censored_residual_slope(60), 0);
  for (double z = -20; z < 6; z += 0.25) {
    EXPECT_GT(censored_residual(z), censored_residual(z + 0.25)) << z;
  }
}

}  // namespace
}  // namespace planwright::estimator
