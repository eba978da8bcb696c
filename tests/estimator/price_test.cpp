#include "estimator/price.h"

#include <gtest/gtest.h>

#include <cmath>

#include "estimator/calibrate.h"
#include "estimator/coefficients.h"
#include "estimator/normal.h"
#include "estimator/price_terms.h"
#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_llama;

/// Round numbers: 1e9 flop/s, 1e8 bytes/s of memory …
Values<double> round_values() {
  Values<double> v = values_of({});
  v[Term::matrix_rate] = 1e9;
  v[Term::memory_bandwidth] = 1e8;
  v[Term::half_tokens] = 16;
  v[Term::kernel_overhead] = 1e-5;
  v[Term::optimizer_rate] = 5e7;
  v[Term::link_latency] = 1e-4;
  v[Term::link_bandwidth] = 1e7;
  v[Term::broadcast_bandwidth] = 2e7;
  return v;
}

TEST(WorkTime, AddsTheRooflinesCeilingsAndTheLaunches) {
  const Work work{.matrix_flops = 3e9, .attention_flops = 1e9, .bytes = 2e8, .launches = 100};
  // 3 s of products, doubled when the micro-batch has half_tokens tokens; 1 s; 2 s; 1 ms.
  EXPECT_DOUBLE_EQ(work_time(work, 16, round_values()), 6 + 1 + 2 + 1e-3);
  EXPECT_DOUBLE_EQ(work_time(work, 48, round_values()), 4 + 1 + 2 + 1e-3);
}

/// Of 1e8 weights, the half of a micro-batch's time that `half_tokens` is counted by, whatever
/// tokens it has: 2·1e8·16 / 1e9.
TEST(WorkTime, OfWeightsThatNoTokenUsesIsThatOfReadingThem) {
  const Work work{.other_weights = 1e8};
  EXPECT_DOUBLE_EQ(work_time(work, 16, round_values()), 3.2);
  EXPECT_DOUBLE_EQ(work_time(work, 48, round_values()), 3.2);
}

ClusterSpec two_links() {
  ClusterSpec cluster;
  cluster.links = {{"inner", BytesPerSecond{4e7}, Seconds{1e-5}, 2},
                   {"outer", BytesPerSecond{1e7}, Seconds{1e-4}, 8}};
  return cluster;
}

struct MessageCase {
  Messages messages;
  double seconds;
};

TEST(MessageTime, FollowsTheAlphaBetaFormulas) {
  const MessageCase cases[] = {
      // 2·3 hops of 1e-4 each for 5 rings, and 2·3/4 of the bytes over the link
      {{Collective::all_reduce, 5, 1e7, 4, 1, 3}, 6 * 5e-4 + 1.5},
      {{Collective::reduce_scatter, 5, 1e7, 4, 1, 3}, 3 * 5e-4 + 0.75},
      {{Collective::all_gather, 5, 1e7, 4, 1, 3}, 3 * 5e-4 + 0.75},
      {{Collective::all_to_all, 5, 1e7, 4, 1, 3}, 3 * 5e-4 + 0.75},
      {{Collective::send, 5, 1e7, 4, 1}, 5e-4 + 1},
      // fewer answers to wait for, and twice the cards
      {{Collective::all_gather, 5, 1e7, 4, 1, 1.5, 2}, 1.5 * 5e-4 + 0.375},
      // ceil(log2 3) = 2 rounds
      {{Collective::broadcast, 10, 1e7, 3, 1}, 2 * (1e-3 + 0.5)},
      {{Collective::all_reduce, 1, 1e7, 1, 1, 0}, 0},
      // the inner link is ten times quicker to answer and four times as wide
      {{Collective::all_reduce, 10, 4e7, 2, 0}, 2 * 1e-4 + 1},
  };
  for (const MessageCase& each : cases) {
    EXPECT_DOUBLE_EQ(message_time(each.messages, two_links(), round_values()), each.seconds);
  }
}

/// Of three stages alike, of two chunks each: the others' micro-batch, less twice what is put off
/// of it, and nothing where more is put off than there is.
TEST(TimeTerms, FillTheBubbleWithWhatIsPostponed) {
  Quantities q;
  q.stages.resize(3);
  q.micro_batches = 8;
  q.chunks = 2;
  q.tokens = 1;
  for (StageQuantities& stage : q.stages) stage.backward.bytes = 6e6;
  const Values<double> v = round_values();
  const double micro = work_time(q.stages[0].backward, q.tokens, v);
  EXPECT_DOUBLE_EQ(time_terms(q, two_links(), v).bubble, 2 * micro / 2);
  for (StageQuantities& stage : q.stages) stage.postponed.bytes = 1e6;
  EXPECT_DOUBLE_EQ(time_terms(q, two_links(), v).bubble, 2 * (micro - micro / 3) / 2);
  for (StageQuantities& stage : q.stages) stage.postponed.bytes = 4e6;
  EXPECT_DOUBLE_EQ(time_terms(q, two_links(), v).bubble, 0);
}

TEST(PeakTerms, TakeTheLargestInstantWithScratchWhereItIsTaken) {
  Quantities q;
  q.stages.resize(2);
  auto& phases = q.stages[1].phases;
  for (std::size_t i = 0; i < phases.size(); ++i) phases[i].phase = static_cast<Phase>(i);
  phases[1].kernels[Account::activations] = Bytes{1000};
  phases[3].product.emplace();
  (*phases[3].product)[Account::activations] = Bytes{800};
  Values<double> v = values_of({});
  v[Term::gemm_scratch] = 100;
  EXPECT_EQ(peak_terms(q, v).allocated, 1000);
  EXPECT_EQ(peak_terms(q, v).phase->phase, Phase::forward);
  v[Term::gemm_scratch] = 300;
  EXPECT_EQ(peak_terms(q, v).allocated, 1100);
  EXPECT_EQ(peak_terms(q, v).phase->phase, Phase::backward);
  EXPECT_TRUE(peak_terms(q, v).product);
  EXPECT_EQ(peak_terms(q, v).stage, 1u);
}

TEST(AllocatedBytes, MultipliesWhatSomebodyElsesKernelsMakeAndWhatAModelThatIsNotKnownHolds) {
  Ledger at;
  at[Account::parameters] = at[Account::optimizer] = Bytes{100};
  at[Account::activations] = at[Account::logits] = Bytes{10};
  at[Account::workspace] = Bytes{1};
  at[Account::context] = Bytes{5000};
  Values<double> v = values_of({});
  EXPECT_EQ(allocated_bytes(at, v), 221) << "what is in no calibration changes nothing";
  v[Term::activation_factor] = 3;
  v[Term::state_factor] = 2;
  EXPECT_EQ(allocated_bytes(at, v), 2 * 200 + 3 * 20 + 1);
}

class PriceOf : public ::testing::Test {
 protected:
  Problem problem = fake_problem(tiny_llama(), 2, Precision::bf16);
  TargetTraits traits = fake_traits();
  Calibration calibration = prior_calibration(problem, traits, std::nullopt);

  Estimate of(const Candidate& candidate) const {
    return estimator::estimate(problem, traits, candidate, calibration);
  }
  Figures figures(const Candidate& candidate) const {
    return Pricer(problem, traits, calibration).figures(quantify(problem, traits, candidate));
  }
};

TEST_F(PriceOf, ALargerMicroBatchIsFasterAndLarger) {
  for (int micro_batch = 1; micro_batch < 4; micro_batch *= 2) {
    const Figures small = figures(data_parallel(2, 0, micro_batch));
    const Figures large = figures(data_parallel(2, 0, 2 * micro_batch));
    EXPECT_LT(large.step_time, small.step_time);
    EXPECT_GT(large.allocated, small.allocated);
  }
}

TEST_F(PriceOf, RecomputationIsSlowerAndSmaller) {
  const Estimate none = of(data_parallel(2, 0, 4));
  const Estimate full = of(data_parallel(2, 0, 4, RecomputeKind::full));
  EXPECT_EQ(none.time.recompute, Seconds{});
  EXPECT_GT(full.time.recompute, Seconds{});
  EXPECT_EQ(full.time.compute, none.time.compute);
  EXPECT_LT(full.peak().accounts.allocated(), none.peak().accounts.allocated());
}

TEST_F(PriceOf, ShardingTheOptimizerIsSmallerAndItsStepShorter) {
  const Estimate whole = of(data_parallel(2, 0, 1));
  const Estimate sharded = of(data_parallel(2, 1, 1));
  EXPECT_LT(sharded.peak().accounts.allocated(), whole.peak().accounts.allocated());
  EXPECT_LT(sharded.time.optimizer, whole.time.optimizer);
  EXPECT_GT(sharded.time.communication, whole.time.communication);
}

TEST_F(PriceOf, FiguresAreTheEstimatesNumbers) {
  const Candidate candidate = data_parallel(2, 1, 2);
  const Estimate estimate = of(candidate);
  const Figures figures = this->figures(candidate);
  EXPECT_EQ(figures.allocated, estimate.peak().accounts.allocated());
  EXPECT_EQ(figures.phase, estimate.peak().phase);
  EXPECT_NEAR(figures.step_time / estimate.step_time, 1, 1e-12);
  EXPECT_EQ(figures.time_rel, estimate.time_rel);
  EXPECT_EQ(figures.fit_probability, estimate.fit_probability);
  EXPECT_EQ(estimate.calibration, calibration_id(calibration));
  EXPECT_EQ(estimate.parameters, parameter_counts(problem.model));
}

/// d log(time) / d log(coefficient), by differences, through the prior's diagonal covariance.
TEST_F(PriceOf, UncertaintyIsTheDeltaMethods) {
  const Candidate candidate = data_parallel(2, 1, 2);
  const Figures at = figures(candidate);
  double variance = std::pow(calibration.time_noise, 2);
  for (std::size_t i = 0; i < calibration.coefficients.size(); ++i) {
    const Calibration before = calibration;
    calibration.coefficients[i].value += 1e-5;
    const double slope = std::log(figures(candidate).step_time / at.step_time) / 1e-5;
    variance += std::pow(slope * before.coefficients[i].sd, 2);
    calibration = before;
  }
  EXPECT_NEAR(at.time_rel, std::sqrt(variance), 1e-4 * at.time_rel);
}

TEST_F(PriceOf, OnACpuNothingOutsideTheAllocatorIsHeldAgainstTheCapacity) {
  const Estimate estimate = of(data_parallel(2, 0, 1));
  EXPECT_FALSE(estimate.peak().reserved.has_value());
  EXPECT_EQ(estimate.peak().accounts[Account::context], Bytes{});
  EXPECT_EQ(figures(data_parallel(2, 0, 1)).judged, figures(data_parallel(2, 0, 1)).allocated);
}

TEST_F(PriceOf, AnAcceleratorHoldsContextAndFragmentationToo) {
  problem.cluster.device.kind = DeviceKind::cuda;
  calibration = prior_calibration(problem, traits, std::nullopt);
  const Estimate estimate = of(data_parallel(2, 0, 1));
  const StageEstimate& stage = estimate.peak();
  EXPECT_EQ(*stage.reserved, stage.accounts.allocated() + stage.accounts[Account::fragmentation]);
  EXPECT_EQ(*stage.device_used, *stage.reserved + stage.accounts[Account::context]);
  EXPECT_GT(stage.accounts[Account::context], Bytes{500'000'000});
  EXPECT_GT(stage.accounts[Account::workspace], Bytes{1 << 20});
}

/// Of what its allocator keeps, a full device gets back what is not stuck.
TEST_F(PriceOf, AFullAcceleratorKeepsLess) {
  problem.cluster.device.kind = DeviceKind::cuda;
  problem.cluster.device.memory = Bytes{80'000'000'000};
  problem.workload.headroom.fraction = 0;
  calibration = prior_calibration(problem, traits, std::nullopt);
  const Candidate candidate = data_parallel(2, 0, 1);
  const Bytes wanted = *of(candidate).peak().device_used;
  const Bytes needed = figures(candidate).judged;
  ASSERT_LT(needed, wanted);

  problem.cluster.device.memory = wanted - Bytes{1};
  EXPECT_EQ(of(candidate).verdict, Verdict::fits);
  EXPECT_EQ(*of(candidate).peak().device_used, problem.cluster.device.memory);

  problem.cluster.device.memory = needed - Bytes{1};
  EXPECT_EQ(of(candidate).verdict, Verdict::too_large);
  EXPECT_EQ(*of(candidate).peak().device_used, needed);
}

TEST_F(PriceOf, OnlyWhatComesAndGoesIsFragmented) {
  problem.cluster.device.kind = DeviceKind::cuda;
  problem.cluster.device.memory = Bytes{80'000'000'000};
  calibration = prior_calibration(problem, traits, std::nullopt);
  const Candidate candidate = data_parallel(2, 0, 1);
  const Estimate estimate = of(candidate);
  const StageEstimate& stage = estimate.peak();
  const Quantities quantities = quantify(problem, traits, candidate);
  const Bytes states = quantities.stages.front().loaded.tensors();
  ASSERT_GT(states, Bytes{});
  EXPECT_EQ(quantities.stages.front().preallocated, states);
  const auto moved = static_cast<double>((stage.accounts.allocated() - states).value);
  const auto kept = static_cast<double>(stage.accounts[Account::fragmentation].value);
  EXPECT_NEAR(kept, values_of(calibration)[Term::fragmentation] * moved, 1);
}

TEST_F(PriceOf, AStagesTensorPeakIsWithoutWorkspaceAndMayBeAtAnotherMoment) {
  const Candidate candidate = data_parallel(2, 0, 1);
  const Quantities quantities = quantify(problem, traits, candidate);
  const StageEstimate stage = of(candidate).peak();
  EXPECT_EQ(stage.tensor_peak, largest_tensors(quantities.stages[0]).tensors.tensors());
  EXPECT_GE(stage.tensor_peak, stage.accounts.tensors());
}

TEST_F(PriceOf, FitProbabilityIsAHalfAtTheCapacityAndFollowsThePeaksSpread) {
  problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  calibration = prior_calibration(problem, traits, std::nullopt);
  const Candidate candidate = data_parallel(2, 0, 2);
  const Figures at = figures(candidate);
  for (const double z : {-2.0, 0.0, 1.0}) {
    const double limit = static_cast<double>(at.allocated.value) * (1 + z * at.memory_rel);
    problem.cluster.device.memory = Bytes{std::llround(limit)};
    EXPECT_NEAR(figures(candidate).fit_probability, normal_cdf(z), 1e-3) << z;
  }
}

TEST_F(PriceOf, TooLargeNamesAccountRankPhaseShortfallAndTheSmallestChange) {
  problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  calibration = prior_calibration(problem, traits, std::nullopt);
  const Bytes two = figures(data_parallel(2, 0, 2)).allocated;
  const Bytes four = figures(data_parallel(2, 0, 4)).allocated;
  problem.cluster.device.memory = two;
  const Estimate estimate = of(data_parallel(2, 0, 4));
  EXPECT_EQ(estimate.verdict, Verdict::too_large);
  EXPECT_LT(estimate.fit_probability, 0.01);
  EXPECT_GT(four, two);
  EXPECT_NE(estimate.reason.find("no room for activations on rank 0 in forward"), std::string::npos)
      << estimate.reason;
  EXPECT_NE(estimate.reason.find("GiB more than"), std::string::npos);
  EXPECT_NE(estimate.reason.find("; --micro-batch 2 would fit"), std::string::npos)
      << estimate.reason;
}

TEST_F(PriceOf, TooLargeSaysSoWhenNoChangeHelps) {
  problem.cluster.device.memory = Bytes{1000};
  EXPECT_NE(of(data_parallel(2, 0, 4)).reason.find("would fit"), std::string::npos);
  EXPECT_NE(of(data_parallel(2, 0, 4)).reason.find("no smaller micro-batch"), std::string::npos);
}

TEST_F(PriceOf, ABrokenRuleIsInvalidWithItsTextAndFix) {
  const Estimate estimate = of(data_parallel(3, 0, 1));
  EXPECT_EQ(estimate.verdict, Verdict::invalid);
  EXPECT_EQ(estimate.reason,
            "tp 1 x pp 1 x cp 1 x dp 3 is 3 ranks, and there are 2 devices; use degrees "
            "whose product is the devices, or another --devices");
  EXPECT_TRUE(estimate.stages.empty());
}

TEST_F(PriceOf, TheWallStaysWhenWeightsRuleAndMovesWhenActivationsDo) {
  problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  calibration = prior_calibration(problem, traits, std::nullopt);
  problem.workload.global_batch = 64;
  EXPECT_EQ(of(data_parallel(2, 0, 1)).wall, Wall::stays);
  EXPECT_EQ(of(data_parallel(2, 0, 32)).wall, Wall::moves);
}

TEST_F(PriceOf, MfuIsModelFlopsOverThePeakAndAbsentWithoutOne) {
  const Candidate candidate = data_parallel(2, 0, 2);
  EXPECT_FALSE(of(candidate).mfu.has_value());  // no bf16 peak is known
  problem.cluster.device.bf16 = FlopsPerSecond{1e11};
  const Estimate estimate = of(candidate);
  const double flops = quantify(problem, traits, candidate).model_flops;
  EXPECT_DOUBLE_EQ(estimate.mfu.value(), flops / estimate.step_time.value / 1e11);
  EXPECT_NEAR(estimate.tokens_per_second_per_device, 64 / estimate.step_time.value, 1e-6);
}

TEST_F(PriceOf, SomebodyElsesKernelsTakeAFactorMoreTimeAndActivations) {
  traits.stand_in_kernels = true;
  calibration = prior_calibration(problem, traits, std::nullopt);
  const Figures usual = figures(data_parallel(2, 0, 2));
  for (Coefficient& each : calibration.coefficients) {
    if (each.name == "work_factor") each.value += std::log(3.0);
  }
  const Figures slower = figures(data_parallel(2, 0, 2));
  EXPECT_GT(slower.step_time / usual.step_time, 2);
  EXPECT_LT(slower.step_time / usual.step_time, 3) << "optimizer and links are not its kernels";
  EXPECT_EQ(slower.allocated, usual.allocated);
  for (Coefficient& each : calibration.coefficients) {
    if (each.name == "activation_factor") each.value += std::log(3.0);
  }
  const Estimate larger = of(data_parallel(2, 0, 2));
  EXPECT_GT(larger.peak().accounts.allocated(), usual.allocated);
  EXPECT_EQ(larger.peak().accounts.allocated(), figures(data_parallel(2, 0, 2)).allocated)
      << "accounts are those of the figure";
}

TEST_F(PriceOf, TheSameInputGivesTheSameEstimate) {
  problem.cluster.device.memory = Bytes{300'000};
  const Candidate candidate = data_parallel(2, 0, 4);
  EXPECT_EQ(of(candidate), of(candidate));
}

}  // namespace
}  // namespace planwright::estimator
