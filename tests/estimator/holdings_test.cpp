#include "estimator/holdings.h"

#include <gtest/gtest.h>

#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_llama;

std::int64_t one_byte(const PrecisionRecipe&) { return 1; }
ShardedBy whole(const Candidate&) { return ShardedBy::nothing; }
ShardedBy in_a_row(const Candidate&) { return ShardedBy::data_ranks; }
ShardedBy by_tensors(const Candidate&) { return ShardedBy::each_tensor; }
ShardedBy by_rows(const Candidate&) { return ShardedBy::each_row; }
Home host(const Candidate&) { return Home::host; }
Home disk(const Candidate&) { return Home::disk; }
bool is_norm(const FlatTensor& t) { return t.tensor.shape.size() == 1; }

/// The tiny Llama kind with one holding of one byte an element, in the account `optimizer`.
struct OneHolding {
  explicit OneHolding(const Holding& holding, int ranks = 1, int zero = 0, int global_batch = 0)
      : traits(fake_traits()), candidate(data_parallel(ranks, zero, 1)) {
    traits.holdings = {holding};
    problem = fake_problem(tiny_llama(), ranks, Precision::fp32);
    if (global_batch > 0) problem.workload.global_batch = global_batch;
    trained = flat_layout(problem.model, ranks, 4096);
    frozen = frozen_layout(problem.model, candidate, 0);
  }
  Holdings held() const { return {problem, traits, candidate}; }

  std::int64_t at(Phase phase) const {
    const auto bytes = held().held_bytes({trained, frozen, {}});
    return bytes[static_cast<std::size_t>(phase)].allocated().value;
  }

  std::int64_t on_host() const { return held().host_bytes({trained, frozen, {}}).value; }

  TargetTraits traits;
  Candidate candidate;
  Problem problem;
  FlatLayout trained, frozen;
};

Holding of(HoldingOf what, ShardedBy (*by)(const Candidate&) = whole) {
  return {.account = Account::optimizer, .of = what, .bytes_each = one_byte, .sharded_by = by};
}

/// Embedding and head 50·24 = 1200 each; per block two norms of 24, q 32·24, k and v 16·24 each,
/// out 24·32, gate and up 40·24 each, down 24·40: 5232; the final norm 24. In all 12888, in 2 + 9·2
/// + 1 tensors.
TEST(HeldBytes, OfParametersHaveNoPadding) {
  EXPECT_EQ(OneHolding(of(HoldingOf::trained)).at(Phase::load), 12888);
  EXPECT_EQ(OneHolding(of(HoldingOf::trained_tensors)).at(Phase::load), 21);
  EXPECT_EQ(OneHolding(of(HoldingOf::frozen)).at(Phase::load), 0);
}

/// Over five ranks each tensor's part is rounded up: 240, 5 + 154 + 2·77 + 154 + 5 + 3·192 = 1048
/// a block, 5 and 240. All in a row lose less: 12888 / 5 = 2577.6. Over three ranks of rows: 17·24
/// of the embedding, 8 + 11·24 + 2·6·24 + 8·32 + 8 + 2·14·24 + 8·40 = 1816 of a block, 8 and 17·24.
TEST(HeldBytes, AreOfTheRankThatHasMost) {
  EXPECT_EQ(OneHolding(of(HoldingOf::trained, by_tensors), 5, 3).at(Phase::load),
            240 + 2 * 1048 + 5 + 240);
  EXPECT_EQ(OneHolding(of(HoldingOf::trained, in_a_row), 5, 1).at(Phase::load), 2578);
  EXPECT_EQ(OneHolding(of(HoldingOf::trained, by_rows), 3, 2).at(Phase::load),
            408 + 2 * 1816 + 8 + 408);
}

TEST(HeldBytes, AreNotDividedWhereNothingIsSharded) {
  EXPECT_EQ(OneHolding(of(HoldingOf::trained, by_rows), 3, 0).at(Phase::load), 12888);
}

TEST(HeldBytes, OfABucketAreTheTargetsWhateverTheModel) {
  OneHolding one(of(HoldingOf::bucket));
  one.traits.bucket_elements = [](const Candidate&) { return 1'000'000; };
  EXPECT_EQ(one.at(Phase::load), 1'000'000);
  one.traits.holdings[0].of = HoldingOf::filled_bucket;
  EXPECT_EQ(one.at(Phase::load), 12888) << "more cannot be in it";
  one.traits.bucket_elements = [](const Candidate&) { return 1000; };
  EXPECT_EQ(one.at(Phase::load), 1000);
}

/// Five norms of 24.
TEST(HeldBytes, AreOfTheTensorsThatTheHoldingTakes) {
  Holding norms = of(HoldingOf::trained);
  norms.takes = is_norm;
  EXPECT_EQ(OneHolding(norms).at(Phase::load), 120);
  norms.of = HoldingOf::trained_tensors;
  EXPECT_EQ(OneHolding(norms).at(Phase::load), 5);
}

/// The embedding and the head are as large; of five ranks' rows 10·24; of the blocks' matrices out
/// and down are not fused, gate and up are 40·24 each.
TEST(HeldBytes, OfTheLargestTensorAreOfOne) {
  EXPECT_EQ(OneHolding(of(HoldingOf::largest_tensor)).at(Phase::load), 1200);
  EXPECT_EQ(OneHolding(of(HoldingOf::largest_tensor, by_rows), 5, 2).at(Phase::load), 240);
  Holding fused = of(HoldingOf::largest_tensor);
  fused.takes = [](const FlatTensor& t) { return t.tensor.name.ends_with("gate_up.weight"); };
  EXPECT_EQ(OneHolding(fused).at(Phase::load), 960);
}

TEST(HeldBytes, HaveAtMostSoManyElementsInACopy) {
  Holding copies = of(HoldingOf::trained);
  copies.copies = 2;
  copies.at_most = 1000;
  EXPECT_EQ(OneHolding(copies).at(Phase::load), 2000);
  copies.at_most = 20000;
  EXPECT_EQ(OneHolding(copies).at(Phase::load), 2 * 12888);
}

TEST(HeldBytes, AreThereFromOnePhaseToAnother) {
  Holding some = of(HoldingOf::trained);
  some.from = Phase::loss;
  some.to = Phase::reduce;
  const OneHolding one(some);
  for (const Phase phase : {Phase::load, Phase::forward, Phase::optimizer}) {
    EXPECT_EQ(one.at(phase), 0) << word(phase);
  }
  for (const Phase phase : {Phase::loss, Phase::backward, Phase::reduce}) {
    EXPECT_EQ(one.at(phase), 12888) << word(phase);
  }
}

TEST(HeldBytes, OfLoraAreTheBasesWhereItIsFrozen) {
  OneHolding one(of(HoldingOf::frozen));
  one.problem.model.lora.rank = 4;
  one.problem.model.lora.targets = {LoraTarget::q_proj};
  ASSERT_TRUE(one.problem.model.lora.freezes());
  one.trained = flat_layout(one.problem.model, 1, 4096);
  one.frozen = frozen_layout(one.problem.model, one.candidate, 0);
  EXPECT_EQ(one.at(Phase::load), 12888);
  one.traits.holdings[0].of = HoldingOf::trained;
  EXPECT_EQ(one.at(Phase::load), 2 * (4 * 24 + 32 * 4)) << "A and B of each block";
}

Holding growing(ShardedBy (*by)(const Candidate&) = whole) {
  Holding holding = of(HoldingOf::trained, by);
  holding.account = Account::gradients;
  holding.from = Phase::backward;
  holding.grows = true;
  return holding;
}

TEST(HostBytes, AreThoseThatAreAtHomeThere) {
  Holding holding = of(HoldingOf::trained);
  EXPECT_EQ(OneHolding(holding).on_host(), 0);
  holding.home = host;
  EXPECT_EQ(OneHolding(holding).on_host(), 12888);
  EXPECT_EQ(OneHolding(holding).at(Phase::load), 0);
  holding.home = disk;
  EXPECT_EQ(OneHolding(holding).on_host(), 0);
  EXPECT_EQ(OneHolding(holding).at(Phase::load), 0);
}

/// 2^14 for all of them; of the five norms one by one 32 for 24 each.
TEST(HostBytes, ThatArePageLockedArePowersOfTwo) {
  Holding holding = of(HoldingOf::trained);
  holding.home = host;
  holding.pinned = true;
  EXPECT_EQ(OneHolding(holding).on_host(), 16384);
  Holding norms = of(HoldingOf::trained, by_rows);
  norms.takes = is_norm;
  norms.home = host;
  norms.pinned = true;
  EXPECT_EQ(OneHolding(norms).on_host(), 5 * 32);
}

TEST(HostBytes, AreOfThePhaseThatHasMost) {
  Holding early = of(HoldingOf::trained), late = early;
  early.home = late.home = host;
  early.to = Phase::forward;
  late.from = Phase::optimizer;
  OneHolding both(early);
  both.traits.holdings.push_back(late);
  EXPECT_EQ(both.on_host(), 12888);
}

/// A block has most, 5232 of the 12888; the head with the final norm has 1224.
TEST(HeldBytes, OfTheLargestUnitAreABlocks) {
  EXPECT_EQ(OneHolding(of(HoldingOf::largest_unit)).at(Phase::load), 5232);
}

TEST(GrowingBytes, AreThoseOfEachUnit) {
  const OneHolding one(growing());
  EXPECT_EQ(one.held().growing_bytes(one.trained),
            (std::vector<std::int64_t>{1200, 5232, 5232, 1224}));
  EXPECT_EQ(one.at(Phase::backward), 0) << "the micro-batches' script has them";
  EXPECT_EQ(one.at(Phase::reduce), 12888);
  EXPECT_EQ(one.at(Phase::optimizer), 12888);
}

TEST(GrowingBytes, AreSharded) {
  const OneHolding one(growing(by_rows), 3, 2);
  EXPECT_EQ(one.held().growing_bytes(one.trained),
            (std::vector<std::int64_t>{408, 1816, 1816, 416}));
}

/// A tied matrix gets its gradient from the head first.
TEST(GrowingBytes, OfATiedMatrixAreMadeByTheHead) {
  OneHolding one(growing());
  one.problem.model.tied_embeddings = true;
  one.trained = flat_layout(one.problem.model, 1, 4096);
  EXPECT_EQ(one.held().growing_bytes(one.trained),
            (std::vector<std::int64_t>{0, 5232, 5232, 1224}));
}

TEST(GrowingBytes, AreNoneWhereNothingGrows) {
  const OneHolding one(of(HoldingOf::trained));
  EXPECT_TRUE(one.held().growing_bytes(one.trained).empty());
}

}  // namespace
}  // namespace planwright::estimator
