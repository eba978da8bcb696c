#include "estimator/shape_error.h"

#include <Eigen/Dense>
#include <cmath>
#include <utility>

namespace planwright::estimator {
namespace {

/// Guesses: the time of a sequence changes by a third where the micro-batch is another by a factor
/// of four or more, and little where only something else is another; and a short measurement
/// repeats to a few percent.
constexpr double kSpread = 0.3;
const double kReach = std::log(4.0);
constexpr double kElsewhere = 0.9;
constexpr double kRepeats = 0.03;

double covariance(const Candidate& a, const Candidate& b) {
  Candidate same = b;
  same.micro_batch = a.micro_batch;
  const double apart = std::log(static_cast<double>(a.micro_batch) / b.micro_batch) / kReach;
  return kSpread * kSpread * std::exp(-0.5 * apart * apart) * (same == a ? 1 : kElsewhere);
}

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::VectorXd covariances(const std::vector<Miss>& misses, const Candidate& candidate) {
  Eigen::VectorXd all(static_cast<Eigen::Index>(misses.size()));
  for (std::size_t i = 0; i < misses.size(); ++i) {
    all[static_cast<Eigen::Index>(i)] = covariance(misses[i].candidate, candidate);
  }
  return all;
}

}  // namespace

ShapeError::ShapeError(std::vector<Miss> misses) : misses_(std::move(misses)) {
  const auto n = static_cast<Eigen::Index>(misses_.size());
  Eigen::MatrixXd all(n, n);
  Eigen::VectorXd values(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    all.col(i) = covariances(misses_, misses_[static_cast<std::size_t>(i)].candidate);
    all(i, i) += kRepeats * kRepeats;
    values[i] = misses_[static_cast<std::size_t>(i)].log_miss;
  }
  const Eigen::LLT<Eigen::MatrixXd> cholesky(all);
  const Eigen::VectorXd weights = cholesky.solve(values);
  weights_.assign(weights.data(), weights.data() + n);
  const RowMajor factor = cholesky.matrixL();
  factor_.assign(factor.data(), factor.data() + factor.size());
}

ShapeError::At ShapeError::at(const Candidate& candidate) const {
  const auto n = static_cast<Eigen::Index>(misses_.size());
  const Eigen::VectorXd to_misses = covariances(misses_, candidate);
  const Eigen::Map<const Eigen::VectorXd> weights(weights_.data(), n);
  const Eigen::Map<const RowMajor> factor(factor_.data(), n, n);
  const Eigen::VectorXd solved = factor.triangularView<Eigen::Lower>().solve(to_misses);
  const double variance = covariance(candidate, candidate) - solved.squaredNorm();
  return {to_misses.dot(weights), std::sqrt(std::max(0.0, variance))};
}

}  // namespace planwright::estimator
