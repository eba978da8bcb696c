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
  EXPECT_NEAR(at.sd, std::sqrt((0.01 + 0.04 + 0.16) / 3), 1e-12);
}

TEST(ShapeError, IsKnownWhereItWasMeasuredAndLessTheFartherAway) {
  const ShapeError error({{with(8), 0.5}, {with(64), -0.5}});
  EXPECT_NEAR(error.at(with(8)).mean, 0.5, 0.02);
  EXPECT_LT(error.at(with(8)).sd, 0.04);
  EXPECT_GT(error.at(with(4)).mean, 0.1);
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

/// Where one stretch of micro-batches bends, less is believed of what lies between others.
TEST(ShapeError, LearnsHowFarAMissReaches) {
  const auto between = [](double bend) {
    const ShapeError error(
        {{with(8), 0.2}, {with(10), 0.2 - bend}, {with(12), 0.2}, {with(32), 0}});
    return error.at(with(20)).sd;
  };
  EXPECT_GT(between(0.4), 2 * between(0));
}

/// By two misses the equations of each process can be solved by hand.
TEST(ShapeError, WeighsItsProcessesByHowWellTheyForetoldTheMisses) {
  const auto matern = [](double ratio, double reach) {
    const double x = std::sqrt(3.0) * std::log(ratio) / std::log(reach);
    return (1 + x) * std::exp(-x);
  };
  const double y2 = 0.1, y4 = 0.3;
  double weights = 0, mean = 0, square = 0;
  for (const double spread : {0.1, 0.2, 0.4}) {
    for (const double reach : {1.2, 2.0, 4.0, 16.0}) {
      const double s = spread * spread, d = s + 0.0009, k = s * matern(2, reach);
      const double det = d * d - k * k, far = s * matern(4, reach);
      const double fit = (d * y2 * y2 - 2 * k * y2 * y4 + d * y4 * y4) / det;
      const double weight = std::exp(-0.5 * fit) / std::sqrt(det);
      const double at = (far * (d * y2 - k * y4) + k * (d * y4 - k * y2)) / det;
      const double explained = (d * far * far - 2 * k * far * k + d * k * k) / det;
      weights += weight;
      mean += weight * at;
      square += weight * (s - explained + at * at);
    }
  }
  mean /= weights;
  const ShapeError::At at = ShapeError({{with(2), y2}, {with(4), y4}}).at(with(8));
  EXPECT_NEAR(at.mean, mean, 1e-12);
  EXPECT_NEAR(at.sd, std::sqrt(square / weights - mean * mean), 1e-12);
}

}  // namespace
}  // namespace planwright::estimator
