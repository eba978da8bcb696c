#include <algorithm>
#include <cstddef>
#include <optional>

#include "estimator/calibrate.h"

namespace planwright::estimator {
namespace {

std::optional<std::size_t> place_of(const Calibration& calibration, const std::string& name) {
  const auto& all = calibration.coefficients;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Coefficient& c) { return c.name == name; });
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

/// Of two coefficients of `learned`, in standard deviations of their priors.
double whitened(const Calibration& learned, std::size_t i, std::size_t j) {
  const auto& all = learned.coefficients;
  return learned.covariance[i * all.size() + j] / (all[i].prior_sd * all[j].prior_sd);
}

}  // namespace

Calibration transferred(const Calibration& learned, const Calibration& prior) {
  Calibration moved = prior;
  const std::size_t n = prior.coefficients.size();
  for (std::size_t i = 0; i < n; ++i) {
    Coefficient& c = moved.coefficients[i];
    const auto from = place_of(learned, c.name);
    if (!from) continue;
    const Coefficient& other = learned.coefficients[*from];
    c.value = c.prior_mean + c.prior_sd * (other.value - other.prior_mean) / other.prior_sd;
    c.sd = c.prior_sd * other.sd / other.prior_sd;
    for (std::size_t j = 0; j < n; ++j) {
      const auto beside = place_of(learned, prior.coefficients[j].name);
      if (!beside) continue;
      moved.covariance[i * n + j] =
          c.prior_sd * prior.coefficients[j].prior_sd * whitened(learned, *from, *beside);
    }
  }
  moved.time_noise = learned.time_noise;
  moved.memory_noise = learned.memory_noise;
  moved.observations = learned.observations;
  return moved;
}

}  // namespace planwright::estimator
