#include <gtest/gtest.h>

#include <algorithm>

#include "estimator/calibrate.h"
#include "estimator/devices.h"
#include "estimator/price.h"
#include "estimator/quantities.h"
#include "launcher/targets/nanotron/traits.h"

/// What target nanotron keeps and makes, beside the same counted by hand.
namespace planwright {
namespace {

using estimator::Quantities;
using estimator::StageQuantities;

constexpr std::int64_t kSeq = 4096, kVocab = 131072;

/// 1.34e9 parameters, tied, or 8.86e9, untied; as many key/value heads as heads.
struct Size {
  std::int64_t layers, hidden, ffn;
  bool tied;
  std::int64_t block() const { return 4 * hidden * hidden + 3 * hidden * ffn + 2 * hidden; }
  std::int64_t matrix() const { return kVocab * hidden; }
};
constexpr Size kSmall{16, 2048, 8192, true}, kLarge{32, 4096, 14336, false};

struct Plan {
  int tp, pp, dp, zero, micro_batch;
  std::int64_t accumulation;
  bool keeps_gathered = false;
};

Problem problem_of(const Size& size, const Plan& plan) {
  Problem problem;
  problem.target = "nanotron";
  BlockSpec block;
  block.heads = block.kv_heads = 32;
  block.head_dim = size.hidden / 32;
  block.ffn = size.ffn;
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  problem.model.hidden = size.hidden;
  problem.model.vocab = kVocab;
  problem.model.max_positions = kSeq;
  problem.model.tied_embeddings = size.tied;
  problem.model.runs = {{size.layers, block}};
  const int devices = plan.tp * plan.pp * plan.dp;
  problem.cluster = estimator::preset_cluster(estimator::find_device("H100-SXM5-80GB", "", ""),
                                              devices, std::min(devices, 8));
  problem.workload.seq = kSeq;
  problem.workload.global_batch = plan.micro_batch * plan.accumulation * plan.dp;
  problem.workload.precision = Precision::bf16;
  problem.workload.recipe = *targets::nanotron::traits().recipe(Precision::bf16);
  return problem;
}

Candidate candidate_of(const Plan& plan) {
  Candidate c;
  c.tp = plan.tp;
  c.pp = plan.pp;
  c.dp = plan.dp;
  c.zero = plan.zero;
  c.micro_batch = plan.micro_batch;
  c.sp = plan.tp > 1;
  if (plan.keeps_gathered) c.knobs = {{"tp_recompute_allgather", "off"}};
  return c;
}

Quantities quantities(const Size& size, const Plan& plan) {
  return estimator::quantify(problem_of(size, plan), targets::nanotron::traits(),
                             candidate_of(plan));
}

double at(const StageQuantities& stage, Phase phase, Account account) {
  const auto& bytes = stage.phases[static_cast<std::size_t>(phase)].tensors;
  return static_cast<double>(bytes[account].value);
}

double real(std::int64_t value) { return static_cast<double>(value); }

/// bf16 weights and fp32 gradients whole, 6 bytes; master and moments 12, over 8 ranks with ZeRO 1;
/// and bf16 buckets, 2, where DistributedDataParallel reduces.
TEST(NanotronMemory, ShardsMasterAndMomentsAndNoGradients) {
  const double n = real(kLarge.layers * kLarge.block() + 2 * kLarge.matrix() + kLarge.hidden);
  const auto loaded = [&](const Plan& plan) {
    return real(quantities(kLarge, plan).stages.front().loaded.allocated().value);
  };
  EXPECT_NEAR(loaded({1, 1, 1, 0, 1, 8}), 18 * n, 1e6);
  EXPECT_NEAR(loaded({1, 1, 8, 0, 1, 8}), 20 * n, 1e6);
  EXPECT_NEAR(loaded({1, 1, 8, 1, 1, 8}), 7.5 * n, 1e6);
}

/// The parts that ranks gather: each one's own, all of them, and all of them in one tensor, whose
/// segment stays.
TEST(NanotronMemory, GathersUpdatedWeightsTwice) {
  const double n = real(kLarge.layers * kLarge.block() + 2 * kLarge.matrix() + kLarge.hidden);
  const StageQuantities stage = quantities(kLarge, {1, 1, 8, 1, 1, 8}).stages.front();
  EXPECT_NEAR(at(stage, Phase::optimizer, Account::communication), (2. / 8 + 2 + 2) * n, 1e6);
  EXPECT_NEAR(at(stage, Phase::forward, Account::fragmentation), 2 * n, 1e6);
  EXPECT_EQ(at(stage, Phase::optimizer, Account::fragmentation), 0);
  const StageQuantities alone = quantities(kLarge, {1, 1, 8, 0, 1, 8}).stages.front();
  EXPECT_EQ(at(alone, Phase::forward, Account::fragmentation), 0);
}

/// 18 of 32 blocks are the first of two stages', which has two micro-batches under way: each block
/// keeps 20h + 8f bytes a token, 4 for each head and 4 for each of two norms.
TEST(NanotronMemory, KeepsAsManyMicroBatchesAsStagesFollow) {
  const double per_token = 20. * 4096 + 8. * 14336 + 4 * 32 + 8;
  const StageQuantities first = quantities(kLarge, {1, 2, 64, 1, 1, 4}).stages.front();
  EXPECT_NEAR(real(first.loaded[Account::parameters].value),
              2. * real(18 * kLarge.block() + kLarge.matrix()), 1);
  const double kept = at(first, Phase::forward, Account::activations);
  EXPECT_GT(kept, 2 * 18 * kSeq * per_token);
  EXPECT_LT(kept, 2.02 * 18 * kSeq * per_token);
  const StageQuantities only = quantities(kLarge, {1, 2, 64, 1, 1, 1}).stages.front();
  EXPECT_LT(at(only, Phase::forward, Account::activations), 1.02 * 18 * kSeq * per_token);
}

/// fp32 logits and their softmax: 8 bytes each, a rank's share of the vocabulary.
TEST(NanotronMemory, HasEightBytesPerLogitInTheLoss) {
  const StageQuantities whole = quantities(kSmall, {1, 1, 8, 1, 2, 4}).stages.back();
  EXPECT_NEAR(at(whole, Phase::loss, Account::logits), 8. * 2 * kSeq * kVocab, 64);
  const StageQuantities quarter = quantities(kSmall, {4, 1, 2, 1, 2, 4}).stages.back();
  EXPECT_NEAR(at(quarter, Phase::loss, Account::logits), 8. * 2 * kSeq * kVocab / 4, 64);
}

/// A matrix on both ends, and once where they are one; with 20 blocks' worth of cost, of which the
/// head's is 4, 11 blocks stand on the first of two stages.
TEST(NanotronMemory, HasATiedMatrixOnBothEnds) {
  const auto parameters = [](const StageQuantities& stage) {
    return stage.loaded[Account::parameters].value;
  };
  const Quantities one = quantities(kSmall, {1, 1, 8, 1, 1, 4});
  EXPECT_EQ(parameters(one.stages[0]), 2 * (16 * kSmall.block() + kSmall.matrix() + kSmall.hidden));
  const Quantities two = quantities(kSmall, {1, 2, 4, 1, 1, 4});
  EXPECT_EQ(parameters(two.stages[0]), 2 * (11 * kSmall.block() + kSmall.matrix()));
  EXPECT_EQ(parameters(two.stages[1]), 2 * (5 * kSmall.block() + kSmall.matrix() + kSmall.hidden));
  const Quantities four = quantities(kSmall, {1, 4, 2, 1, 1, 4});
  EXPECT_EQ(parameters(four.stages[3]), 2 * (kSmall.matrix() + kSmall.hidden)) << "no block";
}

/// Of 4 tensor ranks each keeps two inputs of 2h bytes a token in each block whole, in the place of
/// a quarter.
TEST(NanotronMemory, KeepsWhatWasGatheredByTheKnob) {
  const Plan again{4, 1, 2, 1, 1, 4};
  Plan kept = again;
  kept.keeps_gathered = true;
  const auto activations = [&](const Plan& plan) {
    return at(quantities(kLarge, plan).stages[0], Phase::backward, Account::activations);
  };
  const double more = 32. * kSeq * 2 * (2 * 4096 - 2 * 4096 / 4);
  EXPECT_NEAR(activations(kept) - activations(again), more, 0.05 * more);
}

/// Everybody; data ranks, tensor ranks and stages; tensor ranks of all stages; one or two
/// neighbours; and the ends of a tied matrix.
TEST(NanotronMemory, HasACommunicatorForEachGroup) {
  EXPECT_EQ(quantities(kLarge, {1, 1, 8, 1, 1, 4}).communicators, 2);
  EXPECT_EQ(quantities(kLarge, {2, 1, 4, 1, 1, 4}).communicators, 3);
  EXPECT_EQ(quantities(kLarge, {2, 2, 2, 1, 1, 4}).communicators, 6);
  EXPECT_EQ(quantities(kLarge, {1, 4, 2, 1, 1, 4}).communicators, 5);
  EXPECT_EQ(quantities(kSmall, {1, 4, 2, 1, 1, 4}).communicators, 6);
}

/// The segment that stays is in what is reserved, beside the largest instant.
TEST(NanotronMemory, ReservesTheGatheredTensorsSegment) {
  const Plan plan{1, 1, 8, 1, 2, 8};
  const Problem problem = problem_of(kLarge, plan);
  const auto& traits = targets::nanotron::traits();
  const Estimate estimate =
      estimator::estimate(problem, traits, candidate_of(plan),
                          estimator::prior_calibration(problem, traits, std::nullopt));
  const Ledger& accounts = estimate.peak().accounts;
  const double n = real(kLarge.layers * kLarge.block() + 2 * kLarge.matrix() + kLarge.hidden);
  EXPECT_EQ(*estimate.peak().reserved, accounts.allocated() + accounts[Account::fragmentation]);
  const double fragmented = real(accounts[Account::fragmentation].value);
  EXPECT_GT(fragmented, 2 * n);
  EXPECT_LT(fragmented, 2 * n + 0.1 * real(accounts.allocated().value));
}

}  // namespace
}  // namespace planwright
