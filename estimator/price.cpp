#include "estimator/price.h"

#include <ceres/jet.h>
#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/devices.h"
#include "estimator/normal.h"
#include "estimator/price_terms.h"
#include "estimator/smallest_change.h"
#include "estimator/spec/rank_grid.h"
#include "estimator/spec/recipes.h"
#include "estimator/spec/rules.h"
#include "estimator/wall.h"

namespace planwright::estimator {
namespace {

constexpr int kTerms = static_cast<int>(kTermCount);
using Jet = ceres::Jet<double, kTerms>;
using Covariance = Eigen::Matrix<double, kTerms, kTerms>;

/// The Calibration's values, each with its derivative by its own transformed coefficient.
Values<Jet> jets_of(const Calibration& calibration) {
  Values<Jet> values;
  for (std::size_t i = 0; i < kTermCount; ++i) {
    values.each[i] = Jet(absent_value(static_cast<Term>(i)));
  }
  for (const Coefficient& coefficient : calibration.coefficients) {
    const auto term = from_word<Term>(coefficient.name);
    if (!term) continue;
    values[*term] = natural(coefficient.transform, Jet(coefficient.value, static_cast<int>(*term)));
  }
  return values;
}

Covariance covariance_of(const Calibration& calibration) {
  Covariance covariance = Covariance::Zero();
  const std::size_t n = calibration.coefficients.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = from_word<Term>(calibration.coefficients[i].name);
    for (std::size_t j = 0; j < n; ++j) {
      const auto column = from_word<Term>(calibration.coefficients[j].name);
      if (!row || !column) continue;
      covariance(static_cast<int>(*row), static_cast<int>(*column)) =
          calibration.covariance.at(i * n + j);
    }
  }
  return covariance;
}

/// Relative sd of a priced quantity: of its logarithm, to first order in the coefficients (the
/// delta method), and of the noise that no coefficient explains. It depends on few of them.
double relative_sd(const Jet& value, const Covariance& covariance, double noise) {
  double variance = 0;
  for (int i = 0; i < kTerms; ++i) {
    if (value.v[i] != 0) variance += value.v[i] * covariance.col(i).dot(value.v);
  }
  return std::sqrt(variance / (value.a * value.a) + noise * noise);
}

Bytes rounded(double bytes) { return Bytes{std::llround(bytes)}; }

Wall wall_of(const Ledger& at) {
  const Bytes states = at[Account::parameters] + at[Account::gradients] + at[Account::optimizer];
  return states + states >= at.allocated() ? Wall::stays : Wall::moves;
}

std::string change_text(const Candidate& from, const Candidate& to) {
  std::string text;
  if (to.attention != from.attention) text += fmt::format(" --attention {}", word(to.attention));
  if (to.loss != from.loss) text += fmt::format(" --loss {}", word(to.loss));
  if (to.zero != from.zero) text += fmt::format(" --zero {}", to.zero);
  if (to.ep != from.ep) text += fmt::format(" --ep {}", to.ep);
  if (to.micro_batch != from.micro_batch) text += fmt::format(" --micro-batch {}", to.micro_batch);
  if (!(to.recompute == from.recompute)) {
    text += " --recompute " + recompute_text(to.recompute);
  }
  if (to.offload != from.offload) text += " --offload " + offload_text(to.offload);
  if (to.offload.to != from.offload.to)
    text += fmt::format(" --offload-to {}", word(to.offload.to));
  return text.substr(1);
}

}  // namespace

struct Pricer::State {
  Problem problem;
  TargetTraits traits;
  ParameterCounts parameters;
  Bytes capacity;
  std::optional<Bytes> host_capacity;
  bool accelerator = false;
  bool grouped = false;
  std::string calibration;
  Values<double> values;
  Values<Jet> jets;
  Covariance covariance;
  double time_noise = 0, memory_noise = 0, judged_noise = 0;

  double communicators(const Quantities& q) const { return grouped ? q.communicators : 0; }

  template <class T>
  T judged(const Quantities& q, const PeakTerms<T>& peak, const Values<T>& v) const {
    if (!accelerator) return peak.allocated;
    return device_needed(q.stages[peak.stage], peak.allocated, communicators(q), v);
  }

  int ranks_per_node() const {
    return std::min(problem.cluster.per_node, problem.cluster.devices());
  }

  bool fits(const Quantities& q) const {
    return judged(q, peak_terms(q, values), values) <= static_cast<double>(capacity.value) &&
           host_room(q).fits;
  }

  /// Of a node's memory, for what is offloaded. Where none is, or its size is not known, there is
  /// room.
  struct HostRoom {
    bool fits = true;
    double probability = 1;
  };
  HostRoom host_room(const Quantities& q) const {
    if (q.host == Bytes{} || !host_capacity) return {};
    const Jet needed = host_bytes_needed(q, ranks_per_node(), jets);
    const auto limit = static_cast<double>(host_capacity->value);
    const double sd = needed.a * relative_sd(needed, covariance, 0);
    return {needed.a <= limit, normal_cdf((limit - needed.a) / sd)};
  }

  Bytes host_bytes(const Quantities& q) const {
    if (q.host == Bytes{}) return {};
    return rounded(host_bytes_needed(q, ranks_per_node(), values));
  }

  /// As allocated_bytes, account by account.
  void scale(Ledger& at) const {
    const auto times = [&](Account account, Term factor) {
      at[account] = rounded(values[factor] * static_cast<double>(at[account].value));
    };
    for (const Account account : kMadeByKernels) times(account, Term::activation_factor);
    for (const Account account : kMadeOfWeights) times(account, Term::state_factor);
  }

  Ledger accounts_at(const PeakTerms<double>& peak, const StageQuantities& stage,
                     double communicators) const {
    Ledger at = peak.product ? *peak.phase->product : peak.phase->kernels;
    scale(at);
    if (peak.product) at[Account::workspace] += rounded(values[Term::gemm_scratch]);
    if (!accelerator) return at;
    const auto allocated = static_cast<double>(at.allocated().value);
    const double context = context_bytes(communicators, values);
    const double device = device_bytes(stage, allocated, communicators, capacity, values);
    at[Account::fragmentation] = rounded(device - context - allocated);
    at[Account::context] = rounded(context);
    return at;
  }

  StageEstimate stage_estimate(const StageQuantities& quantities, int number,
                               double communicators) const {
    const PeakTerms<double> peak = stage_peak(quantities, values);
    StageEstimate stage;
    stage.stage = number;
    stage.phase = peak.phase->phase;
    stage.accounts = accounts_at(peak, quantities, communicators);
    stage.tensor_peak = rounded(allocated_bytes(largest_tensors(quantities).tensors, values));
    if (accelerator) {
      stage.reserved = stage.accounts.allocated() + stage.accounts[Account::fragmentation];
      stage.device_used = *stage.reserved + stage.accounts[Account::context];
    }
    return stage;
  }

  /// What would help.
  std::string remedy(const Candidate& candidate) const {
    QuantityTable table(problem, traits);
    const auto change = smallest_change(problem, traits, candidate, [&](const Candidate& next) {
      return fits(table.quantify(next));
    });
    if (change) return change_text(candidate, *change) + " would fit";
    return fmt::format(
        "no smaller micro-batch, higher ZeRO stage, other kernel{}{} or recomputation would fit",
        traits.axes.offload.size() > 1 ? ", offload" : "",
        problem.model.has_experts() ? ", expert ranks" : "");
  }

  static std::string shortfall(Bytes needed, Bytes limit) {
    return fmt::format(
        "{:.3f} GiB needed, {:.3f} GiB more than the {:.3f} GiB that a plan may fill", gib(needed),
        gib(needed - limit), gib(limit));
  }

  /// Account, phase, rank, shortfall, and what would help.
  std::string reason(const Candidate& candidate, const StageEstimate& stage, int rank) const {
    const Bytes needed = stage.device_used.value_or(stage.accounts.allocated());
    return fmt::format("no room for {} on rank {} in {}: {}; {}",
                       word(largest_account(stage.accounts)), rank, word(stage.phase),
                       shortfall(needed, capacity), remedy(candidate));
  }

  std::string host_reason(const Candidate& candidate, Bytes needed) const {
    return fmt::format("no room for offload {} in a node's memory, of its {} ranks: {}; {}",
                       offload_text(candidate.offload), ranks_per_node(),
                       shortfall(needed, *host_capacity), remedy(candidate));
  }
};

Pricer::Pricer(const Problem& problem, const TargetTraits& traits, const Calibration& calibration)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.problem = problem;
  s.traits = traits;
  s.parameters = parameter_counts(problem.model);
  s.capacity = capacity(problem);
  s.host_capacity = host_capacity(problem);
  s.accelerator = problem.cluster.device.kind == DeviceKind::cuda;
  s.grouped = problem.cluster.devices() > 1;
  s.calibration = calibration_id(calibration);
  s.values = values_of(calibration);
  s.jets = jets_of(calibration);
  s.covariance = covariance_of(calibration);
  s.time_noise = calibration.time_noise;
  s.memory_noise = calibration.memory_noise;
  s.judged_noise = s.accelerator ? calibration.reserved_noise : calibration.memory_noise;
}

Pricer::~Pricer() = default;
Pricer::Pricer(Pricer&&) noexcept = default;
Pricer& Pricer::operator=(Pricer&&) noexcept = default;

Figures Pricer::figures(const Quantities& quantities) const {
  const State& s = *state_;
  const PeakTerms<Jet> peak = at_instant(peak_terms(quantities, s.values), s.jets);
  const Jet judged = s.judged(quantities, peak, s.jets);
  const Jet time = time_terms(quantities, s.problem.cluster, s.jets).total();
  const auto limit = static_cast<double>(s.capacity.value);
  const double judged_sd = judged.a * relative_sd(judged, s.covariance, s.judged_noise);
  const State::HostRoom host = s.host_room(quantities);
  return {
      .allocated = rounded(peak.allocated.a),
      .judged = rounded(judged.a),
      .phase = peak.phase->phase,
      .fits = judged.a <= limit && host.fits,
      .step_time = Seconds{time.a},
      .memory_rel = relative_sd(peak.allocated, s.covariance, s.memory_noise),
      .time_rel = relative_sd(time, s.covariance, s.time_noise),
      .fit_probability = normal_cdf((limit - judged.a) / judged_sd) * host.probability,
  };
}

Estimate Pricer::estimate(const Candidate& candidate, const Quantities& q) const {
  const State& s = *state_;
  const Figures figures = this->figures(q);
  const PeakTerms<double> peak = peak_terms(q, s.values);
  const TimeTerms<double> time = time_terms(q, s.problem.cluster, s.values);

  Estimate estimate;
  estimate.parameters = s.parameters;
  for (const StageQuantities& stage : q.stages) {
    estimate.stages.push_back(
        s.stage_estimate(stage, static_cast<int>(estimate.stages.size()), s.communicators(q)));
  }
  estimate.peak_stage = static_cast<int>(peak.stage);
  estimate.peak_rank = rank_at(candidate, {0, 0, estimate.peak_stage});
  estimate.loaded = q.stages[peak.stage].loaded;
  estimate.host_bytes = s.host_bytes(q);
  estimate.wall = wall_of(estimate.peak().accounts);
  estimate.time = {.compute = Seconds{time.compute},
                   .recompute = Seconds{time.recompute},
                   .communication = Seconds{time.communication},
                   .bubble = Seconds{time.bubble},
                   .optimizer = Seconds{time.optimizer},
                   .offload = Seconds{time.offload}};
  estimate.step_time = estimate.time.total();
  const double ranks_per_replica = static_cast<double>(candidate.world()) / candidate.dp;
  const auto tokens = static_cast<double>(candidate.micro_batch * s.problem.workload.seq);
  estimate.tokens_per_second_per_device =
      tokens * q.micro_batches / ranks_per_replica / estimate.step_time.value;
  const DType products = product_type(s.problem.workload);
  if (const auto flops = stated_peak(s.problem.cluster.device, products)) {
    estimate.mfu = q.model_flops / ranks_per_replica / estimate.step_time.value / flops->value;
  }
  estimate.memory_rel = figures.memory_rel;
  estimate.time_rel = figures.time_rel;
  estimate.fit_probability = figures.fit_probability;
  estimate.calibration = s.calibration;
  if (!figures.fits) {
    estimate.verdict = Verdict::too_large;
    if (s.problem.workload.job != Job::inference) {  // serving.cpp has another
      const bool on_device = figures.judged > s.capacity;
      estimate.reason = on_device ? s.reason(candidate, estimate.peak(), estimate.peak_rank)
                                  : s.host_reason(candidate, estimate.host_bytes);
    }
  }
  return estimate;
}

Estimate Pricer::estimate(const Candidate& candidate) const {
  return estimate(candidate, quantify(state_->problem, state_->traits, candidate));
}

Estimate price(const Problem& problem, const TargetTraits& traits, const Candidate& candidate,
               const Quantities& quantities, const Calibration& calibration) {
  return Pricer(problem, traits, calibration).estimate(candidate, quantities);
}

Estimate invalid_estimate(const Problem& problem, const BrokenRule& broken,
                          const Calibration& calibration) {
  Estimate invalid;
  invalid.verdict = Verdict::invalid;
  invalid.reason = reason_text(broken);
  invalid.parameters = parameter_counts(problem.model);
  invalid.calibration = calibration_id(calibration);
  return invalid;
}

Estimate estimate(const Problem& problem, const TargetTraits& traits, const Candidate& candidate,
                  const Calibration& calibration) {
  if (const auto broken = broken_rule(problem, traits, candidate)) {
    return invalid_estimate(problem, *broken, calibration);
  }
  return price(problem, traits, candidate, quantify(problem, traits, candidate), calibration);
}

}  // namespace planwright::estimator
