#include <gtest/gtest.h>

#include "estimator/spec/model_features.h"
#include "estimator/spec/rules.h"
#include "tests/support/fake_traits.h"

namespace planwright {
namespace {

Problem with_sinks() {
  Problem problem = testing::fake_problem(testing::tiny_llama(), 1, Precision::bf16);
  problem.model.runs[0].block.sinks = true;
  return problem;
}

TEST(FeatureRules, AreOneForEachFeatureThatIsNotKnown) {
  EXPECT_EQ(feature_rules({}, "s").size(), kWordCount<ModelFeature>);
  EXPECT_EQ(estimate_rules({}, "s").size(), kWordCount<ModelFeature>);
  for (const Rule& rule : estimate_rules({ModelFeature::experts}, "s")) {
    EXPECT_NE(rule.name, "estimates_experts");
    EXPECT_EQ(rule.source, "s");
  }
}

/// What a target cannot run and what cannot be estimated for it are two things.
TEST(FeatureRules, SayWhoCannot) {
  const Problem problem = with_sinks();
  const Candidate candidate = testing::data_parallel(1, 0, 1);
  const auto said = [&](const std::vector<Rule>& rules) {
    return explain(*first_broken(rules, problem, candidate), problem, candidate);
  };
  const BrokenRule runs = said(feature_rules({}, "s")), estimates = said(estimate_rules({}, "s"));
  EXPECT_EQ(runs.name, "runs_attention_sinks");
  EXPECT_EQ(runs.text, "the model has attention sinks, which fake does not run");
  EXPECT_EQ(estimates.name, "estimates_attention_sinks");
  EXPECT_EQ(estimates.text,
            "the model has attention sinks, which this version cannot estimate for target fake");
  EXPECT_EQ(estimates.fix, "its sizes are known to `planwright models` and to --job inference");
}

}  // namespace
}  // namespace planwright
