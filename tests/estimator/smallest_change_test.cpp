#include "estimator/smallest_change.h"

#include <gtest/gtest.h>

#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_llama;

class SmallestChange : public ::testing::Test {
 protected:
  Problem problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  TargetTraits traits = fake_traits();

  std::optional<Candidate> from(const Candidate& candidate,
                                const std::function<bool(const Candidate&)>& fits) const {
    return smallest_change(problem, traits, candidate, fits);
  }
};

TEST_F(SmallestChange, PrefersOneChangeOverTwo) {
  const auto found = from(data_parallel(2, 0, 4), [](const Candidate& c) {
    return c.recompute.kind == RecomputeKind::full || (c.zero == 1 && c.micro_batch == 1);
  });
  EXPECT_EQ(found, data_parallel(2, 0, 4, RecomputeKind::full));
}

TEST_F(SmallestChange, PrefersShardingThenASmallerMicroBatchThenRecomputation) {
  EXPECT_EQ(from(data_parallel(2, 0, 4), [](const Candidate&) { return true; }),
            data_parallel(2, 1, 4));
  EXPECT_EQ(from(data_parallel(2, 1, 4), [](const Candidate&) { return true; }),
            data_parallel(2, 1, 2));
}

TEST_F(SmallestChange, OffloadsWhatNothingElseMakesFit) {
  traits.axes.offload = {Offload{}, {.optimizer = true}, {.optimizer = true, .params = true}};
  const auto found =
      from(data_parallel(2, 0, 4), [](const Candidate& c) { return c.offload.optimizer; });
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->offload.params);
  EXPECT_EQ(from(data_parallel(2, 0, 4), [](const Candidate&) { return true; }),
            data_parallel(2, 1, 4));
}

TEST_F(SmallestChange, OffloadsActivationsWhereTheTargetDoes) {
  traits.axes.offload = {Offload{}, {.activations = true}};
  const auto found =
      from(data_parallel(2, 0, 4), [](const Candidate& c) { return c.offload.activations; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->zero, 0);
}

TEST_F(SmallestChange, FirstTriesKernelsThatHoldLess) {
  traits.axes.loss = {LossKernel::plain, LossKernel::fused, LossKernel::chunked};
  traits.axes.attention = {AttentionKernel::flash, AttentionKernel::eager};
  Candidate eager = data_parallel(2, 0, 4);
  eager.attention = AttentionKernel::eager;
  EXPECT_EQ(from(eager, [](const Candidate&) { return true; }), data_parallel(2, 0, 4));
  Candidate fused = data_parallel(2, 0, 4), chunked = fused;
  fused.loss = LossKernel::fused;
  chunked.loss = LossKernel::chunked;
  EXPECT_EQ(from(data_parallel(2, 0, 4), [](const Candidate&) { return true; }), fused);
  EXPECT_EQ(from(fused, [](const Candidate&) { return true; }), chunked);
  EXPECT_EQ(from(chunked, [](const Candidate& c) { return c.loss != LossKernel::chunked; }),
            std::nullopt);
}

TEST_F(SmallestChange, SharesExpertsOutBeforeItMakesThemAgain) {
  problem.model.runs[0].block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 16};
  traits.axes.ep = {1, 2};
  const auto found = from(data_parallel(2, 1, 1), [](const Candidate& c) {
    return c.ep == 2 || c.recompute.kind == RecomputeKind::full;
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ep, 2);
  EXPECT_EQ(found->recompute, Recompute{});
}

TEST_F(SmallestChange, TakesTheLargestMicroBatchThatFits) {
  EXPECT_EQ(from(data_parallel(2, 0, 4), [](const Candidate& c) { return c.micro_batch <= 2; }),
            data_parallel(2, 0, 2));
}

TEST_F(SmallestChange, CombinesChangesWhenOneIsNotEnough) {
  const Candidate least = data_parallel(2, 1, 1, RecomputeKind::full);
  EXPECT_EQ(from(data_parallel(2, 0, 4), [&](const Candidate& c) { return c == least; }), least);
}

TEST_F(SmallestChange, NamesLegalCandidatesOnly) {
  // Four sequences a rank: a micro-batch of 3 would leave one over, whatever the target's rules
  // say.
  traits.rules.clear();
  EXPECT_EQ(from(data_parallel(2, 1, 4), [](const Candidate& c) { return c.micro_batch <= 3; }),
            data_parallel(2, 1, 2));
  traits = fake_traits();
  traits.rules.push_back(
      {"no_recompute",
       [](const Problem&, const Candidate& c) { return c.recompute.kind == RecomputeKind::full; },
       "", "", ""});
  EXPECT_FALSE(from(data_parallel(2, 1, 1), [](const Candidate&) { return true; }).has_value());
}

TEST_F(SmallestChange, OffersOnlyWhatTheTargetsAxesHave) {
  traits.axes.zero = {0};
  traits.axes.recompute = {Recompute{}};
  EXPECT_FALSE(from(data_parallel(2, 0, 1), [](const Candidate&) { return true; }).has_value());
}

TEST_F(SmallestChange, IsNothingWhenNothingFits) {
  EXPECT_FALSE(from(data_parallel(2, 0, 4), [](const Candidate&) { return false; }).has_value());
}

}  // namespace
}  // namespace planwright::estimator
