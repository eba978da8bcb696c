#include "estimator/shape_error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace planwright::estimator {
namespace {

Candidate with(int micro_batch, int zero = 0) {
  Candidate candidate;
  candidate.micro_batch = micro_batch;
  candidate.zero = zero;
  return candidate;
}

TEST(ShapeError, IsItsPriorWhereNothingWasMeasured) {
  const ShapeError::At at = ShapeError({}).at(with(8));
  EXPECT_EQ(at.mean, 0);
  EXPECT_NEAR(at.sd, 0.3, 1e-12);
}

TEST(ShapeError, IsKnownWhereItWasMeasuredAndLessTheFartherAway) {
  const ShapeError error({{with(8), 0.5}, {with(64), -0.5}});
  EXPECT_NEAR(error.at(with(8)).mean, 0.5, 0.02);
  EXPECT_LT(error.at(with(8)).sd, 0.04);
  EXPECT_GT(error.at(with(4)).mean, 0.3);
  EXPECT_LT(error.at(with(1)).mean, error.at(with(4)).mean);
  EXPECT_LT(error.at(with(4)).sd, error.at(with(1)).sd);
  EXPECT_LT(error.at(with(128)).mean, 0);
}

TEST(ShapeError, IsSharedByPlansOfTheSameMicroBatch) {
  const ShapeError::At other = ShapeError({{with(8), 0.5}}).at(with(8, 3));
  EXPECT_NEAR(other.mean, 0.45, 0.01);
  EXPECT_GT(other.sd, 0.1);
  EXPECT_LT(other.sd, 0.2);
}

/// By two misses the equations can be solved by hand: k = s² e^(-1/8) between them.
TEST(ShapeError, SolvesTheEquationsOfItsProcess) {
  const double s = 0.09, k = s * std::exp(-0.125), d = s + 0.0009;
  const ShapeError error({{with(2), 0.1}, {with(4), 0.3}});
  const double det = d * d - k * k;
  const double a = (d * 0.1 - k * 0.3) / det, b = (d * 0.3 - k * 0.1) / det;
  const double to_2 = s * std::exp(-0.5), to_4 = k;
  EXPECT_NEAR(error.at(with(8)).mean, to_2 * a + to_4 * b, 1e-12);
  const double explained = (d * to_2 * to_2 - 2 * k * to_2 * to_4 + d * to_4 * to_4) / det;
  EXPECT_NEAR(error.at(with(8)).sd, std::sqrt(s - explained), 1e-12);
}

}  // namespace
}  // namespace planwright::estimator
