#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

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

/// Of the variance that a prior has, the share by which one origin differs from the next; the rest
/// is what they have in common and the prior does not know. Half: priors are spread as widely as
/// published values are, which tells the two not apart.
constexpr double kBetweenOrigins = 0.5;

/// What one origin after the other tells of what they have in common, in standard deviations of the
/// prior: normal means m with information i of their own, each from N(common, kBetweenOrigins).
class Common {
 public:
  /// Of a posterior with mean x and variance v under N(0, 1): i = 1/v - 1 and m = x / (v i), which
  /// weighs i / (1 + i kBetweenOrigins).
  void add(double x, double v) {
    const double information = std::max(0.0, 1 / v - 1);
    const double kept = 1 + information * kBetweenOrigins;
    weights_ += information / kept;
    sum_ += x / (v * kept);
  }
  double mean() const { return sum_ / precision(); }
  /// Of an origin that has shown nothing.
  double variance() const { return 1 / precision() + kBetweenOrigins; }

 private:
  double precision() const { return 1 / (1 - kBetweenOrigins) + weights_; }
  double weights_ = 0, sum_ = 0;
};

/// The coefficient as an origin that has shown nothing has it; `model` says of its prior.
Coefficient common_coefficient(const std::vector<Calibration>& learned, const Coefficient& model) {
  Common common;
  for (const Calibration& each : learned) {
    const auto place = place_of(each, model.name);
    if (!place) continue;
    const Coefficient& c = each.coefficients[*place];
    common.add((c.value - c.prior_mean) / c.prior_sd, std::pow(c.sd / c.prior_sd, 2));
  }
  Coefficient made = model;
  made.value = model.prior_mean + model.prior_sd * common.mean();
  made.sd = model.prior_sd * std::sqrt(common.variance());
  return made;
}

/// Every coefficient of any of them, once.
std::vector<Coefficient> coefficients_of(const std::vector<Calibration>& learned) {
  Calibration all;
  for (const Calibration& each : learned) {
    for (const Coefficient& c : each.coefficients) {
      if (!place_of(all, c.name)) all.coefficients.push_back(c);
    }
  }
  return all.coefficients;
}

}  // namespace

Calibration pooled(const std::vector<Calibration>& learned) {
  Calibration all;
  const std::vector<Coefficient> models = coefficients_of(learned);
  all.covariance.assign(models.size() * models.size(), 0.0);
  for (std::size_t i = 0; i < models.size(); ++i) {
    all.coefficients.push_back(common_coefficient(learned, models[i]));
    all.covariance[i * models.size() + i] = std::pow(all.coefficients.back().sd, 2);
  }
  for (const Calibration& each : learned) {
    all.observations += each.observations;
    all.time_noise = std::max(all.time_noise, each.time_noise);
    all.memory_noise = std::max(all.memory_noise, each.memory_noise);
    all.reserved_noise = std::max(all.reserved_noise, each.reserved_noise);
  }
  return all;
}

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
  moved.reserved_noise = learned.reserved_noise;
  moved.observations = learned.observations;
  return moved;
}

}  // namespace planwright::estimator
