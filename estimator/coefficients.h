#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

#include "estimator/spec/calibration.h"
#include "estimator/spec/host_rates.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"
#include "estimator/spec/words.h"

/// The learned numbers of the price function: what they mean, which apply, what is believed first.
namespace planwright::estimator {

enum class Term {
  matrix_rate,          ///< flop/s of one device in large products of the compute type
  memory_bandwidth,     ///< bytes/s of kernels that only move memory
  half_tokens,          ///< tokens of a micro-batch at which products reach half of that rate
  kernel_overhead,      ///< s per kernel, whatever its size
  optimizer_rate,       ///< bytes/s of the optimizer
  link_latency,         ///< s per message hop
  link_bandwidth,       ///< bytes/s per device, one direction, of reductions and gatherings
  broadcast_bandwidth,  ///< the same of broadcasts
  overlap,              ///< share of the time saved that collectives beside computation could save
  work_factor,          ///< of the user's own kernels and loop, to the passes of ours
  activation_factor,    ///< of what those keep and make, to what ours do
  state_factor,         ///< parameters of a model that is not known, to its stand-in's
  host_link,            ///< bytes/s of one device to and from its host's memory, one direction
  host_optimizer_rate,  ///< bytes/s of one rank's optimizer on the host
  gemm_scratch,         ///< bytes that the matrix library takes for itself, inside the allocator
  device_context,       ///< bytes outside the allocator: the driver and its loaded kernels
  communicator,         ///< bytes outside the allocator: buffers of one group of ranks
  host_process,         ///< bytes of the host's memory that a rank's process takes by itself
  fragmentation,        ///< of what comes and goes, the share that is kept beside it
  stuck,                ///< of what is kept so, the share that a full device does not get back
};

}  // namespace planwright::estimator

namespace planwright {

template <>
struct Words<estimator::Term> {
  static constexpr std::array<std::string_view, 20> kWords{
      "matrix_rate",    "memory_bandwidth",    "half_tokens",       "kernel_overhead",
      "optimizer_rate", "link_latency",        "link_bandwidth",    "broadcast_bandwidth",
      "overlap",        "work_factor",         "activation_factor", "state_factor",
      "host_link",      "host_optimizer_rate", "gemm_scratch",      "device_context",
      "communicator",   "host_process",        "fragmentation",     "stuck"};
};

}  // namespace planwright

namespace planwright::estimator {

constexpr std::size_t kTermCount = kWordCount<Term>;

/// Natural (not transformed) values by Term.
template <class T>
struct Values {
  std::array<T, kTermCount> each;
  const T& operator[](Term term) const { return each[static_cast<std::size_t>(term)]; }
  T& operator[](Term term) { return each[static_cast<std::size_t>(term)]; }
};

/// The number of a scalar, which may have derivatives beside it as ceres::Jet has.
inline double plain_value(double value) { return value; }
template <class Jet>
double plain_value(const Jet& value) {
  return value.a;
}
template <class T>
Values<double> plain_values(const Values<T>& values) {
  Values<double> plain;
  for (std::size_t i = 0; i < kTermCount; ++i) plain.each[i] = plain_value(values.each[i]);
  return plain;
}

/// Whether the price of this problem's candidates depends on the term at all.
bool applies(Term term, const Problem& problem, const TargetTraits& traits);

/// What a term that is in no Calibration counts as: nothing where it is a size, 1 where it is a
/// rate that nothing is divided by, or a factor.
double absent_value(Term term);

/// The natural value behind a Coefficient's transformed one.
template <class T>
T natural(Transform transform, const T& value) {
  using std::exp;
  return transform == Transform::log ? exp(value) : 1.0 / (1.0 + exp(-value));
}

/// The values of a Calibration by Term.
Values<double> values_of(const Calibration& calibration);

/// The prior of one term: its Coefficient with `value` and `sd` at the prior's. `earlier` holds the
/// terms before it, which a derived prior is made of.
Coefficient prior_coefficient(Term term, const Problem& problem, const Values<double>& earlier,
                              const std::optional<HostRates>& rates);

}  // namespace planwright::estimator
