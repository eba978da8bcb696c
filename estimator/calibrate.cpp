#include "estimator/calibrate.h"

#include <ceres/jet.h>
#include <ceres/tiny_solver.h>
#include <ceres/tiny_solver_autodiff_function.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "estimator/normal.h"
#include "estimator/observations.h"
#include "estimator/price_terms.h"

namespace planwright::estimator {
namespace {

constexpr int kTerms = static_cast<int>(kTermCount);
using Vector = Eigen::Matrix<double, kTerms, 1>;
using Matrix = Eigen::Matrix<double, kTerms, kTerms>;

/// Degrees of freedom of the Student t that residuals are taken to follow: step times have heavy
/// tails, and with 4 a residual of three sd counts about as much as one of two.
/// Source: Lange, Little, Taylor (1989), Robust statistical modeling using the t distribution.
constexpr double kTailFreedom = 4;
/// Observations that the prior's noise is worth when the noise is estimated anew.
constexpr double kNoisePriorWeight = 4;
/// Rounds of reweighting; the weights settle within a few.
constexpr int kReweightings = 8;

/// log Φ through a Jet.
double censored(double z) { return censored_residual(z); }
template <int N>
ceres::Jet<double, N> censored(const ceres::Jet<double, N>& z) {
  return {censored_residual(z.a), z.v * censored_residual_slope(z.a)};
}

/// The coefficients as the solver sees them: x = (value - prior mean) / prior sd, so that the prior
/// of every x is a standard normal. A term that is in no coefficient keeps x = 0.
struct Parameters {
  struct Slot {
    Transform transform = Transform::log;
    double mean = 0;
    double sd = 0;  ///< 0: does not apply
  };
  std::array<Slot, kTermCount> slots{};

  explicit Parameters(const Calibration& prior) {
    for (const Coefficient& c : prior.coefficients) {
      if (const auto term = from_word<Term>(c.name)) {
        slots[static_cast<std::size_t>(*term)] = {c.transform, c.prior_mean, c.prior_sd};
      }
    }
  }

  template <class T>
  Values<T> values(const T* x) const {
    Values<T> values;
    for (std::size_t i = 0; i < kTermCount; ++i) {
      const Slot& slot = slots[i];
      values.each[i] = slot.sd > 0 ? natural(slot.transform, T(slot.mean + slot.sd * x[i]))
                                   : T(absent_value(static_cast<Term>(i)));
    }
    return values;
  }
};

/// Of the allocated peak of somebody else's kernels, beyond their factor: they keep and make other
/// tensors at other moments. A guess; a fit of several plans takes its place.
constexpr double kStandInMemoryNoise = 0.1;

/// The weighted residuals: one per coefficient (its prior), one per fact.
struct Residuals {
  std::vector<const Problem*> problems;  ///< one per trial
  const Parameters* parameters = nullptr;
  const Observations* seen = nullptr;
  std::vector<double> weights;  ///< of the facts
  double time_noise = 0, memory_noise = 0, reserved_noise = 0;

  int NumResiduals() const { return kTerms + static_cast<int>(seen->facts.size()); }

  template <class T>
  bool operator()(const T* x, T* out) const {
    const Values<T> values = parameters->values(x);
    out = std::copy(x, x + kTerms, out);
    for (std::size_t i = 0; i < seen->facts.size(); ++i) {
      *out++ = std::sqrt(weights[i]) * residual(seen->facts[i], values);
    }
    return true;
  }

  template <class T>
  T residual(const Fact& fact, const Values<T>& values) const {
    T z = (log_predicted(fact, values) - fact.log_value) / noise(fact.what);
    switch (fact.bound) {
      case Fact::Bound::at_least:
        return censored(z);
      case Fact::Bound::at_most:
        return censored(T(-z));
      case Fact::Bound::none:
        break;
    }
    return z;
  }

  template <class T>
  T log_predicted(const Fact& fact, const Values<T>& values) const {
    using std::log;
    const Quantities& q = seen->quantities[fact.trial];
    const Problem& problem = *problems[fact.trial];
    if (fact.what == Fact::What::time) return log(time_terms(q, problem.cluster, values).total());
    if (fact.what == Fact::What::states) return log(state_bytes(q, values));
    const PeakTerms<T> peak = at_instant(peak_of(fact, q, plain_values(values)), values);
    if (fact.what == Fact::What::allocated) return log(peak.allocated);
    const StageQuantities& stage = q.stages[peak.stage];
    const double groups = problem.cluster.devices() > 1 ? q.communicators : 0;
    if (fact.what == Fact::What::needed) {
      return log(device_needed(stage, peak.allocated, groups, values));
    }
    const T device = device_bytes(stage, peak.allocated, groups, capacity(problem), values);
    if (fact.what == Fact::What::device) return log(device);
    return log(T(device - context_bytes(groups, values)));
  }

  static PeakTerms<double> peak_of(const Fact& fact, const Quantities& q,
                                   const Values<double>& values) {
    if (!fact.stage) return peak_terms(q, values);
    const StageQuantities& stage = q.stages.at(*fact.stage);
    PeakTerms<double> peak = fact.phase
                                 ? phase_peak(stage.phases[static_cast<std::size_t>(*fact.phase)],
                                              values, fact.in_product)
                                 : stage_peak(stage, values);
    peak.stage = *fact.stage;
    return peak;
  }

  double noise(Fact::What what) const {
    if (what == Fact::What::time) return time_noise;
    const bool exact = what == Fact::What::allocated || what == Fact::What::states;
    return exact ? memory_noise : reserved_noise;
  }
};

using Function = ceres::TinySolverAutoDiffFunction<Residuals, Eigen::Dynamic, kTerms>;

struct Evaluation {
  Eigen::VectorXd residuals;
  Eigen::MatrixXd jacobian;
};

Evaluation evaluate(const Residuals& residuals, const Vector& x) {
  const Function function(residuals);
  Evaluation at{Eigen::VectorXd(residuals.NumResiduals()),
                Eigen::MatrixXd(residuals.NumResiduals(), kTerms)};
  function(x.data(), at.residuals.data(), at.jacobian.data());
  return at;
}

/// Of each fact at x, in its noise, as if all weighed the same.
Eigen::VectorXd plain_residuals(Residuals& residuals, const Vector& x) {
  std::fill(residuals.weights.begin(), residuals.weights.end(), 1.0);
  return evaluate(residuals, x).residuals.tail(residuals.NumResiduals() - kTerms);
}

/// Weights of the t distribution: (f + 1) / (f + r²). A censored residual keeps its own: beyond the
/// bound it is nothing, and before it the bound is not noise.
std::vector<double> weights_at(Residuals& residuals, const Vector& x) {
  const Eigen::VectorXd r = plain_residuals(residuals, x);
  std::vector<double> weights(residuals.weights.size(), 1.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double each = r[static_cast<Eigen::Index>(i)];
    if (residuals.seen->facts[i].is_bound()) continue;
    weights[i] = (kTailFreedom + 1) / (kTailFreedom + each * each);
  }
  return weights;
}

/// -log of the posterior, but for a constant: half the squares of what is normal (the prior, a
/// bound), and of every other fact the t distribution's.
double surprise(Residuals& residuals, const Vector& x) {
  const Eigen::VectorXd r = plain_residuals(residuals, x);
  double sum = x.squaredNorm() / 2;
  for (std::size_t i = 0; i < residuals.weights.size(); ++i) {
    const double square = std::pow(r[static_cast<Eigen::Index>(i)], 2);
    sum += residuals.seen->facts[i].is_bound()
               ? square / 2
               : (kTailFreedom + 1) / 2 * std::log1p(square / kTailFreedom);
  }
  return sum;
}

/// A maximum of the posterior, and what the facts weigh there.
struct Mode {
  Vector x = Vector::Zero();
  std::vector<double> weights;
};

/// The one that the prior leads to when the facts first weigh so much.
Mode mode_from(Residuals& residuals, std::vector<double> weights) {
  Mode mode{Vector::Zero(), std::move(weights)};
  for (int round = 0; round < kReweightings; ++round) {
    const Vector before = mode.x;
    residuals.weights = mode.weights;
    const Function function(residuals);
    ceres::TinySolver<Function> solver;
    solver.options.function_tolerance = 1e-12;
    solver.Solve(function, &mode.x);
    if ((mode.x - before).norm() < 1e-9) break;
    mode.weights = weights_at(residuals, mode.x);
  }
  return mode;
}

/// Of the weights that facts have at the prior, those of what an allocator gave out: what it gave
/// out and no coefficient explains is what the model leaves out.
std::vector<double> doubting_weights(Residuals& residuals) {
  std::vector<double> weights = weights_at(residuals, Vector::Zero());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (residuals.seen->facts[i].what != Fact::What::allocated) weights[i] = 1;
  }
  return weights;
}

/// The likelier of two: a t distribution's posterior has one mode that believes all facts alike,
/// and may have one that takes allocated peaks far off for outliers.
Vector solve(Residuals& residuals) {
  const std::vector<double> alike(residuals.weights.size(), 1.0);
  Mode mode = mode_from(residuals, alike);
  const std::vector<double> doubts = doubting_weights(residuals);
  if (doubts != alike) {
    Mode doubting = mode_from(residuals, doubts);
    if (surprise(residuals, doubting.x) < surprise(residuals, mode.x)) mode = std::move(doubting);
  }
  residuals.weights = mode.weights;
  return mode.x;
}

/// The noise of some facts after the fit: the prior's variance counted kNoisePriorWeight times
/// beside the weighted squares of their residuals.
double noise_after(const Residuals& residuals, const Vector& x,
                   std::initializer_list<Fact::What> kinds, double prior) {
  const Eigen::VectorXd weighted = evaluate(residuals, x).residuals;
  double squares = kNoisePriorWeight;
  double count = kNoisePriorWeight;
  for (std::size_t i = 0; i < residuals.seen->facts.size(); ++i) {
    const Fact& fact = residuals.seen->facts[i];
    if (fact.is_bound() || std::count(kinds.begin(), kinds.end(), fact.what) == 0) continue;
    const double each = weighted[kTerms + static_cast<Eigen::Index>(i)];
    squares += each * each;
    count += 1;
  }
  return prior * std::sqrt(squares / count);
}

/// The posterior: values at x, spread by (JᵀJ)⁻¹, whose prior rows make it invertible.
Calibration posterior(const Calibration& prior, const Residuals& residuals, const Vector& x) {
  const Eigen::MatrixXd jacobian = evaluate(residuals, x).jacobian;
  const Matrix information = jacobian.transpose() * jacobian;
  const Matrix whitened = information.ldlt().solve(Matrix::Identity());

  Calibration learned = prior;
  const std::size_t n = prior.coefficients.size();
  learned.covariance.assign(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    Coefficient& c = learned.coefficients[i];
    const auto row = from_word<Term>(c.name);
    if (!row) continue;
    c.value = c.prior_mean + c.prior_sd * x[static_cast<int>(*row)];
    for (std::size_t j = 0; j < n; ++j) {
      const auto column = from_word<Term>(prior.coefficients[j].name);
      if (!column) continue;
      learned.covariance[i * n + j] = c.prior_sd * prior.coefficients[j].prior_sd *
                                      whitened(static_cast<int>(*row), static_cast<int>(*column));
    }
    c.sd = std::sqrt(learned.covariance[i * n + i]);
  }
  return learned;
}

std::vector<const Problem*> alike(const Observations& seen, const Problem& problem) {
  return std::vector<const Problem*>(seen.quantities.size(), &problem);
}

Calibration fitted(const Calibration& prior, const Observations& seen,
                   std::vector<const Problem*> problems) {
  if (seen.facts.empty()) return prior;
  const Parameters parameters(prior);
  Residuals residuals{.problems = std::move(problems),
                      .parameters = &parameters,
                      .seen = &seen,
                      .weights = std::vector<double>(seen.facts.size(), 1.0),
                      .time_noise = prior.time_noise,
                      .memory_noise = prior.memory_noise,
                      .reserved_noise = prior.reserved_noise};
  // Twice: the noise of the first fit is the yardstick of the second.
  const Vector first = solve(residuals);
  const double time = noise_after(residuals, first, {Fact::What::time}, prior.time_noise);
  const double memory = noise_after(residuals, first, {Fact::What::allocated}, prior.memory_noise);
  const double reserved = noise_after(residuals, first, {Fact::What::reserved, Fact::What::device},
                                      prior.reserved_noise);
  residuals.time_noise = time;
  residuals.memory_noise = memory;
  residuals.reserved_noise = reserved;
  const Vector x = solve(residuals);

  Calibration learned = posterior(prior, residuals, x);
  learned.time_noise = time;
  learned.memory_noise = memory;
  learned.reserved_noise = reserved;
  learned.observations = static_cast<int>(seen.quantities.size());
  return learned;
}

/// Uncorrelated, as every prior is.
void spread_by_prior(Calibration& prior) {
  const std::size_t n = prior.coefficients.size();
  prior.covariance.assign(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    prior.covariance[i * n + i] = std::pow(prior.coefficients[i].prior_sd, 2);
  }
}

/// Every coefficient that applies to any of the problems, as the first of them believes it.
Calibration prior_of_all(const TargetTraits& traits, const std::vector<Evidence>& evidence) {
  Calibration all;
  for (const Evidence& each : evidence) {
    const Calibration prior = prior_calibration(each.problem, traits, std::nullopt);
    if (all.coefficients.empty()) all = prior;
    for (const Coefficient& c : prior.coefficients) {
      const bool known =
          std::any_of(all.coefficients.begin(), all.coefficients.end(),
                      [&](const Coefficient& other) { return other.name == c.name; });
      if (!known) all.coefficients.push_back(c);
    }
  }
  spread_by_prior(all);
  return all;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::optional<double> median_error(const Problem& problem, const TargetTraits& traits,
                                   const Calibration& calibration, const std::vector<Trial>& trials,
                                   Fact::What what) {
  const Observations seen = observations_of(problem, traits, trials);
  const Residuals residuals{.problems = alike(seen, problem),
                            .parameters = nullptr,
                            .seen = &seen,
                            .weights = {},
                            .time_noise = 0,
                            .memory_noise = 0,
                            .reserved_noise = 0};
  const Values<double> values = values_of(calibration);
  std::vector<double> errors;
  for (const Fact& fact : seen.facts) {
    if (fact.what != what || fact.is_bound()) continue;
    errors.push_back(std::abs(residuals.log_predicted(fact, values) - fact.log_value));
  }
  return median(std::move(errors));
}

}  // namespace

Calibration prior_calibration(const Problem& problem, const TargetTraits& traits,
                              const std::optional<HostRates>& rates) {
  Calibration prior;
  Values<double> earlier{};
  for (std::size_t i = 0; i < kTermCount; ++i) {
    const auto term = static_cast<Term>(i);
    if (!applies(term, problem, traits)) continue;
    prior.coefficients.push_back(prior_coefficient(term, problem, earlier, rates));
    const Coefficient& made = prior.coefficients.back();
    earlier[term] = natural(made.transform, made.value);
  }
  if (applies(Term::activation_factor, problem, traits)) prior.memory_noise = kStandInMemoryNoise;
  spread_by_prior(prior);
  return prior;
}

Calibration calibrate(const Problem& problem, const TargetTraits& traits, const Calibration& prior,
                      const std::vector<Trial>& trials) {
  const Observations seen = observations_of(problem, traits, trials);
  return fitted(prior, seen, alike(seen, problem));
}

Calibration calibrate_across(const TargetTraits& traits, const std::vector<Evidence>& evidence) {
  const Calibration prior = prior_of_all(traits, evidence);
  Observations seen;
  std::vector<const Problem*> problems;
  for (const Evidence& each : evidence) {
    Observations one = observations_of(each.problem, traits, {each.trial});
    for (Fact& fact : one.facts) {
      fact.trial += seen.quantities.size();
      if (each.stage && !fact.is_bound()) fact.stage = *each.stage;
      seen.facts.push_back(fact);
    }
    std::move(one.quantities.begin(), one.quantities.end(), std::back_inserter(seen.quantities));
    problems.resize(seen.quantities.size(), &each.problem);
  }
  return fitted(prior, seen, problems);
}

std::optional<double> median_time_error(const Problem& problem, const TargetTraits& traits,
                                        const Calibration& calibration,
                                        const std::vector<Trial>& trials) {
  return median_error(problem, traits, calibration, trials, Fact::What::time);
}

std::optional<double> median_memory_error(const Problem& problem, const TargetTraits& traits,
                                          const Calibration& calibration,
                                          const std::vector<Trial>& trials) {
  return median_error(problem, traits, calibration, trials, Fact::What::allocated);
}

}  // namespace planwright::estimator
