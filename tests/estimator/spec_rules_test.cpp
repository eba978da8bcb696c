#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "estimator/spec/rules.h"
#include "tests/support/fake_traits.h"

namespace planwright {
namespace {

using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_gpt;
using testing::tiny_llama;

/// With a global batch of 8.
Problem four_devices() { return fake_problem(tiny_llama(), 4, Precision::bf16); }

struct IllegalCandidate {
  const char* rule;
  std::function<void(Problem&, Candidate&)> spoil;
  const char* text;
  const char* fix;
};

TEST(BrokenRule, SaysWhatIsWrongAndWhatToDoAboutIt) {
  const IllegalCandidate cases[] = {
      {"zero_supported", [](Problem&, Candidate& c) { c.zero = 2; }, "fake does not support zero 2",
       "use zero 0 or 1"},
      {"tp_supported", [](Problem&, Candidate& c) { c.tp = 0; }, "fake does not support tp 0",
       "use tp 1"},
      {"recompute_supported",
       [](Problem&, Candidate& c) {
         c.recompute = {RecomputeKind::chunk, 2, {}};
       },
       "fake does not support recompute chunk:2", "use recompute none or full"},
      {"loss_supported", [](Problem&, Candidate& c) { c.loss = LossKernel::fused; },
       "fake does not support loss fused", "use loss plain"},
      {"sp_supported", [](Problem&, Candidate& c) { c.sp = true; }, "fake does not support sp on",
       "use sp off"},
      {"offload_supported", [](Problem&, Candidate& c) { c.offload.optimizer = true; },
       "fake does not support offload optimizer to cpu", "use offload none"},
      {"knobs_supported",
       [](Problem&, Candidate& c) {
         c.knobs = {{"overlap", "maybe"}};
       },
       "overlap = maybe: fake does not have that knob, or not that value of it",
       "use overlap = off or on; buckets = small or large"},
      {"world_size", [](Problem&, Candidate& c) { c.dp = 3; },
       "tp 1 x pp 1 x cp 1 x dp 3 is 3 ranks, and there are 4 devices",
       "use degrees whose product is the devices, or another --devices"},
      {"world_size", [](Problem&, Candidate& c) { c.dp = 0; },
       "tp 1 x pp 1 x cp 1 x dp 0 is 0 ranks, and there are 4 devices",
       "use degrees whose product is the devices, or another --devices"},
      {"dp_divides_global_batch", [](Problem& p, Candidate&) { p.workload.global_batch = 2; },
       "a global batch of 2 cannot be shared by dp 4 alike",
       "use a dp that divides 2 (more tp, pp or cp, or fewer --devices), or a --global-batch that "
       "is a multiple of 4"},
      {"global_batch_divides", [](Problem&, Candidate& c) { c.micro_batch = 3; },
       "a global batch of 8 is not a whole number of micro-batches: dp 4 x micro-batch 3 does not "
       "divide it",
       "use a micro-batch that divides 8 / dp 4, or a --global-batch that is a multiple of dp x "
       "micro-batch"},
      {"global_batch_divides", [](Problem&, Candidate& c) { c.micro_batch = 0; },
       "a global batch of 8 is not a whole number of micro-batches: dp 4 x micro-batch 0 does not "
       "divide it",
       "use a micro-batch that divides 8 / dp 4, or a --global-batch that is a multiple of dp x "
       "micro-batch"},
      {"countable_bytes",
       [](Problem& p, Candidate& c) {
         c.micro_batch = 1 << 20;
         p.workload.global_batch = 4 << 20;
         p.workload.seq = std::int64_t{1} << 40;
       },
       "micro-batch 1048576 x 1099511627776 tokens need more bytes than can be counted",
       "use a smaller --micro-batch or --seq"},
      {"seq_within_positions",
       [](Problem& p, Candidate&) {
         p.model = tiny_gpt();
         p.workload.seq = 33;
       },
       "a sequence of 33 is longer than the model's 32 learned positions",
       "use a --seq of at most 32"},
  };
  for (const IllegalCandidate& each : cases) {
    SCOPED_TRACE(each.text);
    Problem problem = four_devices();
    Candidate candidate = testing::data_parallel(4, 0, 1);
    each.spoil(problem, candidate);
    const auto broken = broken_rule(problem, testing::fake_traits_with_knobs(), candidate);
    ASSERT_TRUE(broken.has_value());
    EXPECT_EQ(broken->name, each.rule);
    EXPECT_EQ(broken->text, each.text);
    EXPECT_EQ(broken->fix, each.fix);
  }
}

TEST(BrokenRule, RotaryPositionsMayBeExceeded) {
  Problem problem = four_devices();
  problem.workload.seq = 1000;
  EXPECT_EQ(broken_rule(problem, fake_traits(), testing::data_parallel(4, 1, 2)), std::nullopt);
}

TEST(BrokenRule, AWorldOfMoreRanksThanANumberHoldsIsTooLarge) {
  Candidate candidate = testing::data_parallel(1 << 20, 0, 1);
  candidate.tp = candidate.pp = candidate.cp = 1 << 20;
  TargetTraits traits = fake_traits();
  traits.axes.tp = traits.axes.pp = traits.axes.cp = {1 << 20};
  const auto broken = broken_rule(four_devices(), traits, candidate);
  ASSERT_TRUE(broken.has_value());
  EXPECT_EQ(broken->name, "world_size");
}

TEST(BrokenRule, ATargetsOwnComeAfterTheGeneralOnes) {
  TargetTraits traits = fake_traits();
  traits.rules.push_back({"none_at_all", [](const Problem&, const Candidate&) { return true; },
                          "{target} takes nothing", "use another", "here"});
  const auto own = broken_rule(four_devices(), traits, testing::data_parallel(4, 0, 1));
  EXPECT_EQ(own, (BrokenRule{"none_at_all", "fake takes nothing", "use another", "here"}));
  EXPECT_EQ(broken_rule(four_devices(), traits, testing::data_parallel(2, 0, 1))->name,
            "world_size");
}

}  // namespace
}  // namespace planwright
