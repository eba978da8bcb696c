#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/words.h"

namespace planwright {

/// One learned number of the price function. It lives in a transformed space in which its prior
/// is normal: log for rates and overheads, logit for fractions. Values here are transformed.
enum class Transform { log, logit };
template <>
struct Words<Transform> {
  static constexpr std::array<std::string_view, 2> kWords{"log", "logit"};
};

struct Coefficient {
  std::string name;  ///< "matrix_efficiency", "link_latency"
  Transform transform = Transform::log;
  double prior_mean = 0;
  double prior_sd = 1;
  double value = 0;
  double sd = 1;
  std::string source;  ///< where the prior is from
  bool operator==(const Coefficient&) const = default;
};

/// What the model has learned: a value that is handed on, never changed in place.
struct Calibration {
  std::vector<Coefficient> coefficients;
  std::vector<double> covariance;  ///< row-major, transformed space, n × n
  double time_noise = 0.15;        ///< sd of log(measured / predicted) that no coefficient explains
  double memory_noise = 0.005;     ///< the same for the allocated peak
  /// The same for what an accelerator's allocator takes: equal configurations reserve as far apart.
  /// Source: published sweeps of one framework, runs that differ in the number of replicas only:
  /// median 4.5 % over 32 groups.
  double reserved_noise = 0.045;
  int observations = 0;

  bool operator==(const Calibration&) const = default;
};

/// The first 12 hex digits of the SHA-256 of its canonical JSON, sources left out.
std::string calibration_id(const Calibration& calibration);

}  // namespace planwright
