#include "search/refusal.h"

#include <gtest/gtest.h>

#include "search/space.h"
#include "tests/support/fake_traits.h"

namespace planwright::search {
namespace {

/// With a global batch of 8.
Problem four_devices() { return testing::fake_problem(testing::tiny_llama(), 4, Precision::bf16); }

std::vector<std::string> names(const std::vector<BrokenRule>& rules) {
  std::vector<std::string> all;
  for (const BrokenRule& each : rules) all.push_back(each.name);
  return all;
}

using Names = std::vector<std::string>;
using Counts = std::vector<std::pair<std::string, std::int64_t>>;

TEST(Refusal, IsEmptyWhereACandidateIsLegal) {
  EXPECT_TRUE(enumerate(four_devices(), testing::fake_traits(), {}).refusal.always.empty());
}

TEST(Refusal, NamesTheRuleThatAllBreakThoughMostBreakAnotherFirst) {
  TargetTraits traits = testing::fake_traits();
  traits.rules.push_back({"estimates_nothing",
                          [](const Problem&, const Candidate&) { return true; },
                          "nothing can be estimated", "use another", ""});
  SpaceRequest request;
  request.dp = {1, 2, 4};  // of which world_size drops two before the target's rule is asked
  request.zero = {0};
  request.recompute = {Recompute{}};
  const Space space = enumerate(four_devices(), traits, request);
  EXPECT_GT(space.dropped.at("world_size"), space.dropped.at("estimates_nothing"));
  EXPECT_EQ(names(space.refusal.always), Names{"estimates_nothing"});
  EXPECT_EQ(space.refusal.always.front().fix, "use another");
  EXPECT_TRUE(space.refusal.of_nearest.empty()) << "mended, dp 4 is legal";
  EXPECT_EQ(space.refusal.nearest.dp, 4);
  EXPECT_EQ(space.refusal.sometimes, (Counts{{"world_size", space.dropped.at("world_size")}}));
}

TEST(Refusal, HasWhatStandsBehindTheRulesThatAllBreak) {
  Problem problem = four_devices();
  problem.workload.global_batch = 6;
  SpaceRequest request;
  request.zero = {3};
  request.micro_batch = {1, 2};
  request.recompute = {Recompute{}};
  const Refusal refusal = enumerate(problem, testing::fake_traits(), request).refusal;
  EXPECT_EQ(names(refusal.always), (Names{"zero_supported", "dp_divides_global_batch"}));
}

TEST(Refusal, CountsEachRuleWhereNoOneRefusesThemAll) {
  TargetTraits traits = testing::fake_traits();
  const auto add = [&](const char* name, auto broken) {
    traits.rules.push_back({name,
                            [broken](const Problem&, const Candidate& c) { return broken(c); },
                            "{micro_batch}", "", ""});
  };
  add("small", [](const Candidate& c) { return c.micro_batch == 1; });
  add("large", [](const Candidate& c) { return c.micro_batch == 2; });
  add("sharded", [](const Candidate& c) { return c.zero > 0; });
  SpaceRequest request;
  request.recompute = {Recompute{}};
  const Refusal refusal = enumerate(four_devices(), traits, request).refusal;
  EXPECT_TRUE(refusal.always.empty());
  EXPECT_EQ(refusal.sometimes, (Counts{{"small", 2}, {"large", 2}, {"sharded", 2}}));
  EXPECT_EQ(names(refusal.of_nearest), Names{"small"});
  EXPECT_EQ(refusal.nearest.zero, 0);
}

}  // namespace
}  // namespace planwright::search
