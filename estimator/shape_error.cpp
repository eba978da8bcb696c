#include "estimator/shape_error.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <utility>

namespace planwright::estimator {
namespace {

/// Guesses: the time of a sequence changes by a tenth to a half, where the micro-batch is another
/// by a factor of 1.2 to 16 or more, and little where only something else is another; and a short
/// measurement repeats to a few percent.
constexpr double kSpreads[] = {0.1, 0.2, 0.4};
constexpr double kReaches[] = {1.2, 2, 4, 16};
constexpr double kElsewhere = 0.9;
constexpr double kRepeats = 0.03;

/// Of Matern's kind with 3/2, which has slopes but may bend sharply.
double covariance(double spread, double reach, const Candidate& a, const Candidate& b) {
  Candidate same = b;
  same.micro_batch = a.micro_batch;
  const double log_ratio = std::log(static_cast<double>(a.micro_batch) / b.micro_batch);
  const double apart = std::sqrt(3.0) * std::abs(log_ratio) / reach;
  return spread * spread * (1 + apart) * std::exp(-apart) * (same == a ? 1 : kElsewhere);
}

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::VectorXd covariances(double spread, double reach, const std::vector<Miss>& misses,
                            const Candidate& candidate) {
  Eigen::VectorXd all(static_cast<Eigen::Index>(misses.size()));
  for (std::size_t i = 0; i < misses.size(); ++i) {
    all[static_cast<Eigen::Index>(i)] = covariance(spread, reach, misses[i].candidate, candidate);
  }
  return all;
}

}  // namespace

ShapeError::ShapeError(std::vector<Miss> misses) : misses_(std::move(misses)) {
  for (const double spread : kSpreads) {
    for (const double ratio : kReaches) processes_.push_back(solved(spread, std::log(ratio)));
  }
  double best = processes_.front().weight, sum = 0;
  for (const Process& each : processes_) best = std::max(best, each.weight);
  for (Process& each : processes_) sum += each.weight = std::exp(each.weight - best);
  for (Process& each : processes_) each.weight /= sum;
}

/// Its weight is still the logarithm of how likely the misses are by it.
ShapeError::Process ShapeError::solved(double spread, double reach) const {
  const auto n = static_cast<Eigen::Index>(misses_.size());
  Eigen::MatrixXd all(n, n);
  Eigen::VectorXd values(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Miss& miss = misses_[static_cast<std::size_t>(i)];
    all.col(i) = covariances(spread, reach, misses_, miss.candidate);
    all(i, i) += kRepeats * kRepeats;
    values[i] = miss.log_miss;
  }
  const Eigen::LLT<Eigen::MatrixXd> cholesky(all);
  const Eigen::VectorXd weights = cholesky.solve(values);
  const RowMajor factor = cholesky.matrixL();
  const double log_determinant = 2 * factor.diagonal().array().log().sum();
  return {spread,
          reach,
          -0.5 * (values.dot(weights) + log_determinant),
          {factor.data(), factor.data() + factor.size()},
          {weights.data(), weights.data() + n}};
}

ShapeError::At ShapeError::at(const Process& process, const Candidate& candidate) const {
  const auto n = static_cast<Eigen::Index>(misses_.size());
  const Eigen::VectorXd to_misses = covariances(process.spread, process.reach, misses_, candidate);
  const Eigen::Map<const Eigen::VectorXd> weights(process.weights.data(), n);
  const Eigen::Map<const RowMajor> factor(process.factor.data(), n, n);
  const Eigen::VectorXd solved = factor.triangularView<Eigen::Lower>().solve(to_misses);
  const double variance = process.spread * process.spread - solved.squaredNorm();
  return {to_misses.dot(weights), std::sqrt(std::max(0.0, variance))};
}

ShapeError::At ShapeError::at(const Candidate& candidate) const {
  double mean = 0, square = 0;
  for (const Process& each : processes_) {
    const At by = at(each, candidate);
    mean += each.weight * by.mean;
    square += each.weight * (by.sd * by.sd + by.mean * by.mean);
  }
  return {mean, std::sqrt(std::max(0.0, square - mean * mean))};
}

}  // namespace planwright::estimator
