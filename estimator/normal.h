#pragma once

#include <cmath>

namespace planwright::estimator {

/// Φ(z), the standard normal distribution function.
inline double normal_cdf(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

/// log Φ(z), accurate where Φ underflows: below -8 by the first terms of its asymptotic series,
/// Φ(z) ≈ φ(z) / -z · (1 - 1/z² + 3/z⁴). Source: Abramowitz and Stegun, 26.2.12.
inline double log_normal_cdf(double z) {
  if (z > -8) return std::log(normal_cdf(z));
  const double squared = z * z;
  const double log_density = -squared / 2 - std::log(2 * M_PI) / 2;
  return log_density - std::log(-z) + std::log1p(-1 / squared + 3 / (squared * squared));
}

/// The derivative of log Φ: φ(z) / Φ(z).
inline double log_normal_cdf_slope(double z) {
  return std::exp(-z * z / 2 - std::log(2 * M_PI) / 2 - log_normal_cdf(z));
}

/// The residual of a censored observation, half of whose square is -log Φ(z): nothing when the
/// value lies far beyond the bound (z → ∞), like a measured value's own residual far below it (z →
/// -∞).
inline double censored_residual(double z) { return std::sqrt(-2 * log_normal_cdf(z)); }

/// d censored_residual / dz = -slope / residual.
inline double censored_residual_slope(double z) {
  const double residual = censored_residual(z);
  return residual > 0 ? -log_normal_cdf_slope(z) / residual : 0;
}

}  // namespace planwright::estimator
