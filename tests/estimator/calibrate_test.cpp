#include "estimator/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "estimator/coefficients.h"
#include "estimator/price.h"
#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_llama;

/// A model large enough that every part of a step takes a share of it.
ModelSpec middling() {
  ModelSpec model = tiny_llama();
  model.hidden = 512;
  model.vocab = 4000;
  model.runs[0].count = 4;
  model.runs[0].block.heads = 8;
  model.runs[0].block.kv_heads = 4;
  model.runs[0].block.head_dim = 64;
  model.runs[0].block.ffn = 1408;
  return model;
}

class Calibrate : public ::testing::Test {
 protected:
  Problem problem = make_problem(Precision::bf16);
  TargetTraits traits = fake_traits(1 << 20);
  Calibration prior = prior_calibration(problem, traits, std::nullopt);

  static Problem make_problem(Precision precision) {
    Problem problem = fake_problem(middling(), 2, precision);
    problem.workload.seq = 128;
    problem.workload.global_batch = 32;
    return problem;
  }

  static std::vector<Candidate> candidates() {
    std::vector<Candidate> all;
    for (const RecomputeKind recompute : {RecomputeKind::none, RecomputeKind::full}) {
      for (const int zero : {0, 1}) {
        for (const int micro_batch : {1, 2, 4, 8, 16}) {
          all.push_back(data_parallel(2, zero, micro_batch, recompute));
        }
      }
    }
    return all;
  }

  /// What the world would be with every coefficient `shift` of its prior's sd off, alternating.
  Calibration truth(double shift) const {
    Calibration world = prior;
    for (std::size_t i = 0; i < world.coefficients.size(); ++i) {
      world.coefficients[i].value += (i % 2 == 0 ? shift : -shift) * prior.coefficients[i].prior_sd;
    }
    return world;
  }

  Trial trial(std::int64_t number, const Candidate& candidate, double seconds, Bytes peak) const {
    Trial trial;
    trial.number = number;
    trial.problem_hash = problem_hash(problem);
    trial.candidate = candidate;
    Measurement measured;
    measured.step_time_s = seconds;
    measured.ranks.resize(2);
    measured.ranks[1].peak[Account::activations] = peak;
    trial.outcome.value = measured;
    return trial;
  }

  /// Measurements of that world, times spread by `noise`.
  std::vector<Trial> trials_of(const Calibration& world, double noise = 0) const {
    std::mt19937_64 random(7);
    std::normal_distribution<double> spread(0, 1);
    const Pricer pricer(problem, traits, world);
    std::vector<Trial> trials;
    for (const Candidate& candidate : candidates()) {
      const Figures at = pricer.figures(quantify(problem, traits, candidate));
      trials.push_back(trial(static_cast<std::int64_t>(trials.size()), candidate,
                             at.step_time.value * std::exp(noise * spread(random)), at.allocated));
    }
    return trials;
  }

  /// A device that ran full in a product of backward, which asked for scratch.
  Trial out_of_memory(std::int64_t number, const Candidate& candidate, Bytes at_least) const {
    Trial trial = this->trial(number, candidate, 0, {});
    OutOfMemory full;
    full.requested = Bytes{1 << 10};
    full.allocated = at_least - full.requested;
    full.capacity = at_least - Bytes{1};
    full.account = Account::workspace;
    full.phase = Phase::backward;
    trial.outcome.value = full;
    return trial;
  }

  /// The largest instant of backward's products, scratch included.
  Bytes product_peak(const Calibration& calibration, const Candidate& candidate) const {
    const Quantities q = quantify(problem, traits, candidate);
    const Ledger known = *q.stages[0].phases[static_cast<std::size_t>(Phase::backward)].product;
    return known.allocated() + Bytes{std::llround(value_of(calibration, Term::gemm_scratch))};
  }

  double value_of(const Calibration& calibration, Term term) const {
    return values_of(calibration)[term];
  }
  Calibration learned(const std::vector<Trial>& trials) const {
    return calibrate(problem, traits, prior, trials);
  }
  Figures figures_after(const Calibration& calibration, const Candidate& candidate) const {
    return Pricer(problem, traits, calibration).figures(quantify(problem, traits, candidate));
  }
  double time_error(const Calibration& calibration, const std::vector<Trial>& trials) const {
    return median_time_error(problem, traits, calibration, trials).value();
  }
};

TEST_F(Calibrate, WithoutTrialsThePriorStands) { EXPECT_EQ(learned({}), prior); }

TEST_F(Calibrate, PredictsAWorldItsCoefficientsCanDescribe) {
  const auto trials = trials_of(truth(1.0));
  const Calibration after = learned(trials);
  EXPECT_GT(time_error(prior, trials), 0.2);
  EXPECT_LT(time_error(after, trials), 0.01);
  EXPECT_EQ(after.observations, 20);
}

TEST_F(Calibrate, RecoversTheCoefficientsThatTheTrialsTellApart) {
  const Calibration world = truth(0.7);
  const Calibration after = learned(trials_of(world));
  for (const Term term : {Term::matrix_rate, Term::gemm_scratch}) {
    EXPECT_NEAR(std::log(value_of(after, term) / value_of(world, term)), 0, 0.1)
        << std::string(word(term));
  }
  for (std::size_t i = 0; i < world.coefficients.size(); ++i) {
    const Coefficient& c = after.coefficients[i];
    EXPECT_LT(std::abs(c.value - world.coefficients[i].value), 2 * c.sd + 0.05) << c.name;
  }
}

TEST_F(Calibrate, GeneralisesFromFewTrialsToTheRest) {
  const auto all = trials_of(truth(1.0), 0.02);
  const std::vector<Trial> few{all[0], all[3], all[7], all[12], all[19]};
  EXPECT_LT(time_error(learned(few), all), 0.05);
}

TEST_F(Calibrate, NarrowsWhatItHasSeenAndNeverWidens) {
  const Calibration after = learned(trials_of(truth(0.5)));
  for (const Coefficient& c : after.coefficients)
    EXPECT_LE(c.sd, c.prior_sd * (1 + 1e-9)) << c.name;
  EXPECT_LT(after.coefficients[0].sd, 0.3 * after.coefficients[0].prior_sd);
  const Candidate candidate = candidates()[2];
  const auto spread = [&](const Calibration& calibration) {
    return Pricer(problem, traits, calibration)
        .figures(quantify(problem, traits, candidate))
        .time_rel;
  };
  EXPECT_LT(spread(after), spread(prior) / 3);
}

TEST_F(Calibrate, CovarianceIsSymmetricWithTheSpreadsOnItsDiagonal) {
  const Calibration after = learned(trials_of(truth(0.5)));
  const std::size_t n = after.coefficients.size();
  ASSERT_EQ(after.covariance.size(), n * n);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(after.covariance[i * n + i], std::pow(after.coefficients[i].sd, 2), 1e-12);
    for (std::size_t j = 0; j < n; ++j) {
      EXPECT_NEAR(after.covariance[i * n + j], after.covariance[j * n + i], 1e-12);
    }
  }
}

TEST_F(Calibrate, AnOutlierMovesLittle) {
  auto trials = trials_of(truth(0.5), 0.02);
  std::get<Measurement>(trials[4].outcome.value).step_time_s *= 10;  // a machine that was busy
  const auto clean = trials_of(truth(0.5));
  EXPECT_LT(time_error(learned(trials), clean), 0.03);
}

/// No likely scratch explains a fifth of the peak: what the model leaves out is not learned as one.
TEST_F(Calibrate, TakesAPeakThatNothingExplainsForAnOutlier) {
  auto trials = trials_of(prior);
  trials.resize(3);
  Bytes& peak = std::get<Measurement>(trials[0].outcome.value).ranks[1].peak[Account::activations];
  peak = Bytes{peak.value * 6 / 5};
  const double before = value_of(prior, Term::gemm_scratch);
  EXPECT_NEAR(value_of(learned(trials), Term::gemm_scratch), before, before / 10);
}

TEST_F(Calibrate, EstimatesTheNoiseBetweenThePriorsAndTheDatas) {
  const Calibration quiet = learned(trials_of(truth(0.5)));
  EXPECT_LT(quiet.time_noise, prior.time_noise);
  EXPECT_GT(quiet.time_noise, prior.time_noise / 4);  // twenty exact trials are not proof of none
  const Calibration noisy = learned(trials_of(truth(0.5), 0.2));
  EXPECT_GT(noisy.time_noise, 0.08);
  EXPECT_LT(noisy.time_noise, 0.25);
}

TEST_F(Calibrate, IsTheSameWhateverTheOrderOfTheTrials) {
  auto trials = trials_of(truth(0.5), 0.05);
  const Calibration in_order = learned(trials);
  std::reverse(trials.begin(), trials.end());
  std::swap(trials[3], trials[11]);
  EXPECT_EQ(learned(trials), in_order);
}

TEST_F(Calibrate, RunningOutOfMemoryRaisesTheScratch) {
  const Candidate candidate = data_parallel(2, 1, 4);
  const Bytes beyond = product_peak(prior, candidate) + Bytes{2'000'000};
  const Calibration after = learned({out_of_memory(0, candidate, beyond)});
  EXPECT_GT(value_of(after, Term::gemm_scratch), value_of(prior, Term::gemm_scratch) + 1e6);
  EXPECT_EQ(value_of(after, Term::matrix_rate), value_of(prior, Term::matrix_rate));
  EXPECT_EQ(after.observations, 1);
}

TEST_F(Calibrate, RunningOutOfMemoryFarBelowThePredictionTeachesNothingNew) {
  const Candidate candidate = data_parallel(2, 1, 4);
  const Bytes below{product_peak(prior, candidate).value / 2};
  const Calibration after = learned({out_of_memory(0, candidate, below)});
  EXPECT_NEAR(value_of(after, Term::gemm_scratch) / value_of(prior, Term::gemm_scratch), 1, 1e-6);
}

/// An accelerator's own figures: what is reserved and held in all is 1.3 and 1.5 times what is
/// allocated, so more fragmentation and more context than the prior believes.
TEST_F(Calibrate, LearnsWhatAnAcceleratorHoldsOutsideTheAllocator) {
  problem.cluster.device.kind = DeviceKind::cuda;
  problem.cluster.device.memory = Bytes{80'000'000'000};
  prior = prior_calibration(problem, traits, std::nullopt);
  Trial seen = trial(0, data_parallel(2, 1, 4), 0, Bytes{3'000'000'000});
  auto& rank = std::get<Measurement>(seen.outcome.value).ranks[1];
  const Figures at =
      Pricer(problem, traits, prior).figures(quantify(problem, traits, seen.candidate));
  rank.peak[Account::activations] = at.allocated;
  rank.reserved_peak = Bytes{at.allocated.value / 10 * 13};
  rank.device_peak = *rank.reserved_peak + Bytes{3'000'000'000};
  const Calibration after = learned({seen});
  const Quantities quantities = quantify(problem, traits, seen.candidate);
  const Bytes moved = at.allocated - quantities.stages.front().preallocated;
  const double share =
      0.3 * static_cast<double>(at.allocated.value) / static_cast<double>(moved.value);
  EXPECT_NEAR(value_of(after, Term::fragmentation) / share, 1, 0.4);
  EXPECT_NEAR(value_of(after, Term::device_context) + value_of(after, Term::communicator), 3e9,
              5e8);
  EXPECT_NEAR(value_of(after, Term::gemm_scratch) / value_of(prior, Term::gemm_scratch), 1, 0.2);
}

TEST_F(Calibrate, AFullAcceleratorHoldsMoreThanItHas) {
  problem.cluster.device.kind = DeviceKind::cuda;
  prior = prior_calibration(problem, traits, std::nullopt);
  const Candidate candidate = data_parallel(2, 1, 4);
  const Figures at = Pricer(problem, traits, prior).figures(quantify(problem, traits, candidate));
  Trial full = out_of_memory(0, candidate, Bytes{at.allocated.value / 2});
  std::get<OutOfMemory>(full.outcome.value).capacity = at.judged + at.judged;
  const Calibration after = learned({full});
  EXPECT_GT(Pricer(problem, traits, after).figures(quantify(problem, traits, candidate)).judged,
            Bytes{at.judged.value / 10 * 18});
}

/// What ran on a device that its allocator filled fits there, however much was kept.
TEST_F(Calibrate, WhatRanOnAFullAcceleratorFitsIt) {
  problem.cluster.device.kind = DeviceKind::cuda;
  problem.cluster.device.memory = Bytes{80'000'000'000};
  prior = prior_calibration(problem, traits, std::nullopt);
  const Candidate candidate = data_parallel(2, 1, 4);
  const Figures roomy = figures_after(prior, candidate);
  Trial seen = trial(0, candidate, 0, roomy.allocated);
  problem.cluster.device.memory = roomy.judged + Bytes{roomy.allocated.value / 10};
  seen.problem_hash = problem_hash(problem);
  auto& rank = std::get<Measurement>(seen.outcome.value).ranks[1];
  rank.device_peak = problem.cluster.device.memory;
  rank.reserved_peak = *rank.device_peak - (roomy.judged - roomy.allocated);

  const Calibration after = learned({seen});
  EXPECT_GT(value_of(after, Term::fragmentation), value_of(prior, Term::fragmentation));
  EXPECT_LE(figures_after(after, candidate).judged, problem.cluster.device.memory);
}

TEST_F(Calibrate, OtherEndsOtherProblemsAndOtherScopesTeachNothing) {
  auto trials = trials_of(truth(1.0));
  trials.resize(3);
  trials[0].outcome.value =
      Failure{.kind = OutcomeKind::crashed, .detail = "", .log_tail = "", .rank = 0};
  trials[1].problem_hash = "another";
  trials[2].scope.kind = ScopeKind::truncated;
  EXPECT_EQ(learned(trials), prior);
  EXPECT_FALSE(median_time_error(problem, traits, prior, trials).has_value());
}

TEST_F(Calibrate, MedianErrorsAreThoseOfTheMiddleTrial) {
  const Pricer pricer(problem, traits, prior);
  std::vector<Trial> trials;
  for (const double factor : {1.0, std::exp(0.3), std::exp(-0.1)}) {
    const Candidate candidate = data_parallel(2, 0, 2);
    const Figures at = pricer.figures(quantify(problem, traits, candidate));
    trials.push_back(trial(static_cast<std::int64_t>(trials.size()), candidate,
                           at.step_time.value * factor,
                           Bytes{std::llround(static_cast<double>(at.allocated.value) * factor)}));
  }
  EXPECT_NEAR(time_error(prior, trials), 0.1, 1e-9);
  EXPECT_NEAR(median_memory_error(problem, traits, prior, trials).value(), 0.1, 1e-6);
}

HostRates host_rates() {
  HostRates rates;
  rates.world = 3;
  rates.threads = 1;
  rates.matmul_fp32_flops_per_s = 4e10;
  rates.matmul_bf16_flops_per_s = 9e10;
  rates.copy_bytes_per_s = 8e9;
  rates.kernel_overhead_s = 2e-6;
  rates.all_reduce_latency_s = 4e-5;
  rates.all_reduce_bytes_per_s = 3e8;
  rates.broadcast_bytes_per_s = 5e8;
  rates.gemm_scratch_bytes = 700'000;
  return rates;
}

/// A ring of 3 takes 4 hops, each of a third of the buffer; a broadcast to 3 two rounds.
TEST_F(Calibrate, PriorsAreTheHostsRatesWhereTheyWereMeasured) {
  const Calibration measured = prior_calibration(problem, traits, host_rates());
  EXPECT_NEAR(value_of(measured, Term::matrix_rate), 0.9 * 9e10, 1);
  EXPECT_NEAR(value_of(measured, Term::memory_bandwidth), 8e9, 1);
  EXPECT_NEAR(value_of(measured, Term::link_latency), 1e-5, 1e-12);
  EXPECT_NEAR(value_of(measured, Term::link_bandwidth), 3e8 * 4 / 3, 1);
  EXPECT_NEAR(value_of(measured, Term::broadcast_bandwidth), 1e9, 1);
  EXPECT_NEAR(value_of(measured, Term::gemm_scratch), 700'000, 1e-3);
  for (std::size_t i = 0; i < measured.coefficients.size(); ++i) {
    EXPECT_LE(measured.coefficients[i].sd, prior.coefficients[i].sd);
    EXPECT_FALSE(measured.coefficients[i].source.empty());
  }
  problem = make_problem(Precision::fp32);
  EXPECT_NEAR(value_of(prior_calibration(problem, traits, host_rates()), Term::matrix_rate),
              0.9 * 4e10, 1);
}

/// e rate / (2 bandwidth), of the priors themselves.
TEST_F(Calibrate, ThePriorOfTheHalfEfficiencySizeIsTheRooflinesKnee) {
  EXPECT_NEAR(
      value_of(prior, Term::half_tokens),
      2 * value_of(prior, Term::matrix_rate) / (2 * value_of(prior, Term::memory_bandwidth)), 1e-9);
}

struct AppliesCase {
  DeviceKind kind;
  Precision precision;
  int devices;
  std::vector<Term> absent;
};

TEST(PriorCalibration, HasOnlyTheCoefficientsThatApply) {
  const AppliesCase cases[] = {
      {DeviceKind::cpu,
       Precision::fp32,
       1,
       {Term::link_latency, Term::link_bandwidth, Term::broadcast_bandwidth, Term::overlap,
        Term::gemm_scratch, Term::device_context, Term::communicator, Term::fragmentation,
        Term::stuck}},
      {DeviceKind::cpu,
       Precision::bf16,
       2,
       {Term::device_context, Term::communicator, Term::fragmentation, Term::stuck}},
      {DeviceKind::cuda,
       Precision::bf16,
       1,
       {Term::link_latency, Term::link_bandwidth, Term::broadcast_bandwidth, Term::overlap,
        Term::communicator}},
      {DeviceKind::cuda, Precision::bf16, 8, {Term::broadcast_bandwidth}},
  };
  for (const AppliesCase& each : cases) {
    Problem problem = fake_problem(tiny_llama(), each.devices, each.precision);
    problem.cluster.device.kind = each.kind;
    const Calibration prior = prior_calibration(problem, fake_traits(), std::nullopt);
    std::vector<Term> absent{Term::work_factor, Term::activation_factor,   Term::state_factor,
                             Term::host_link,   Term::host_optimizer_rate, Term::host_process};
    absent.insert(absent.end(), each.absent.begin(), each.absent.end());
    EXPECT_EQ(prior.coefficients.size(), kTermCount - absent.size());
    for (const Term term : absent) {
      EXPECT_TRUE(std::none_of(prior.coefficients.begin(), prior.coefficients.end(),
                               [&](const Coefficient& c) { return c.name == word(term); }));
    }
  }
}

TEST(PriorCalibration, KnowsTheHostWhereSomethingCanBeOffloaded) {
  Problem problem = fake_problem(tiny_llama(), 8, Precision::bf16);
  problem.cluster.device.kind = DeviceKind::cuda;
  TargetTraits traits = fake_traits();
  traits.axes.offload = {Offload{}, {.optimizer = true}};
  const auto rate = [&](Term term) {
    return values_of(prior_calibration(problem, traits, std::nullopt))[term];
  };
  EXPECT_GT(rate(Term::host_optimizer_rate), 1e9);
  EXPECT_GT(rate(Term::host_process), 1e9);
  problem.cluster.pcie = BytesPerSecond{50e9};
  EXPECT_NEAR(rate(Term::host_link), 40e9, 1e6) << "0.8 of the sheet";
}

TEST(PriorCalibration, OfSomebodyElsesKernelsHasFactorsAndOfAnUnknownModelWideOnes) {
  Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  TargetTraits traits = fake_traits();
  traits.stand_in_kernels = true;
  const auto sd_of = [&](Term term) -> std::optional<double> {
    for (const Coefficient& c : prior_calibration(problem, traits, std::nullopt).coefficients) {
      if (c.name == word(term)) return c.sd;
    }
    return std::nullopt;
  };
  EXPECT_LT(sd_of(Term::work_factor), 1);
  EXPECT_LT(sd_of(Term::activation_factor), 1);
  EXPECT_EQ(sd_of(Term::state_factor), std::nullopt);
  problem.model.stand_in = true;
  for (const Term term : {Term::work_factor, Term::activation_factor, Term::state_factor}) {
    EXPECT_GE(sd_of(term), 2) << word(term);
  }
}

TEST(PriorCalibration, WithoutDataSheetOrMeasurementIsWide) {
  Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  problem.cluster.device.fp32.reset();
  problem.cluster.device.memory_bandwidth = {};
  const Calibration prior = prior_calibration(problem, fake_traits(), std::nullopt);
  EXPECT_GE(prior.coefficients[0].sd, 1);
  for (const Coefficient& c : prior.coefficients) EXPECT_TRUE(std::isfinite(c.value)) << c.name;
}

}  // namespace
}  // namespace planwright::estimator
