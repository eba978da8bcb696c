#include <gtest/gtest.h>

#include <set>

#include "estimator/devices.h"
#include "estimator/quantities.h"
#include "estimator/spec/rules.h"
#include "launcher/targets/megatron_deepspeed/traits.h"
#include "tests/support/fake_traits.h"

namespace planwright::targets::megatron_deepspeed {
namespace {

constexpr std::int64_t kLayers = 24, kHidden = 2048, kVocab = 50304, kSeq = 2048;

/// BigScience's tr3 of 1.3 billion parameters, on 8 devices.
Problem problem_of(Precision precision) {
  Problem p = testing::fake_problem(testing::tiny_llama(), 8, Precision::fp32);
  p.cluster = estimator::preset_cluster(estimator::find_device("V100-SXM2-32GB", "", ""), 8, 8);
  p.model = {};
  p.model.name = "gpt-1b3";
  p.model.hidden = kHidden;
  p.model.vocab = 50257;
  p.model.max_positions = kSeq;
  p.model.positions = Positions::learned;
  p.model.tied_embeddings = true;
  p.model.runs = {{.count = kLayers,
                   .block = {.heads = 16,
                             .kv_heads = 16,
                             .head_dim = 128,
                             .ffn = 4 * kHidden,
                             .qkv_bias = true,
                             .out_bias = true,
                             .mlp_bias = true}}};
  p.workload.seq = kSeq;
  p.workload.global_batch = 512;
  p.workload.precision = precision;
  p.workload.recipe = traits().recipe(precision).value();
  p.target = traits().name;
  p.target_version = traits().version;
  return p;
}

/// Of one rank of a model that is not cut.
double parameters() {
  const double h = kHidden, of_block = 12 * h * h + 13 * h;
  return kLayers * of_block + (kVocab + kSeq) * h + 2 * h;
}

Candidate candidate_of(int dp, int zero) {
  Candidate c = testing::data_parallel(dp, zero, 1, RecomputeKind::full);
  c.attention = AttentionKernel::eager;
  return c;
}

double states(Precision precision, int zero) {
  const auto q = estimator::quantify(problem_of(precision), traits(), candidate_of(8, zero));
  const Ledger& at = q.stages.at(0).phases[static_cast<std::size_t>(Phase::reduce)].tensors;
  return static_cast<double>(
      (at[Account::parameters] + at[Account::gradients] + at[Account::optimizer]).value);
}

/// 4 P + 16 P / dp, 22 P without ZeRO, and 8 P + 12 P / dp with the optimizer of bf16.
TEST(MegatronDeepspeed, KeepsTheStatesThatItsLogsShow) {
  const double p = parameters();
  EXPECT_NEAR(states(Precision::fp16, 1) / (4 * p + 16 * p / 8), 1, 0.005);
  EXPECT_NEAR(states(Precision::fp16, 0) / (22 * p), 1, 0.005);
  EXPECT_NEAR(states(Precision::bf16, 1) / (6 * p + 2 * p + 12 * p / 8), 1, 0.005);
}

TEST(MegatronDeepspeed, ReducesThroughABucketWhenAllIsDone) {
  const auto q = estimator::quantify(problem_of(Precision::fp16), traits(), candidate_of(8, 1));
  const auto at = [&](Phase phase) {
    return q.stages.at(0).phases[static_cast<std::size_t>(phase)].tensors[Account::communication];
  };
  EXPECT_EQ(at(Phase::reduce).value, 1'000'000'000);
  EXPECT_EQ(at(Phase::backward).value, 0);
}

/// 1F1B has as many micro-batches on the first stage as there are stages; each keeps the inputs of
/// its blocks, and what was sent on.
TEST(MegatronDeepspeed, KeepsAMicroBatchForEachLaterStage) {
  const auto peak = [](int pp) {
    Candidate c = candidate_of(8 / pp, 1);
    c.pp = pp;
    const auto q = estimator::quantify(problem_of(Precision::fp16), traits(), c);
    const auto& phase = q.stages.front().phases[static_cast<std::size_t>(Phase::backward)];
    return static_cast<double>(phase.tensors[Account::activations].value);
  };
  const double boundary = 2.0 * kSeq * kHidden;
  EXPECT_NEAR(peak(4) - peak(2), (4 * (6 + 1) - 2 * (12 + 1)) * boundary, 0.1 * boundary);
}

TEST(MegatronDeepspeed, HasRulesWithTextFixAndSource) {
  const Problem problem = problem_of(Precision::fp16);
  std::set<std::string> names;
  for (const Rule& rule : traits().rules) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " is there twice";
    EXPECT_FALSE(rule.source.empty()) << rule.name;
    const BrokenRule said = explain(rule, problem, candidate_of(8, 1));
    for (const std::string& text : {said.text, said.fix}) {
      EXPECT_FALSE(text.empty()) << rule.name;
      EXPECT_EQ(text.find('{'), std::string::npos) << rule.name << ": " << text;
    }
  }
  EXPECT_FALSE(broken_rule(problem, traits(), candidate_of(8, 1)));
}

TEST(MegatronDeepspeed, NamesASourceForEachRow) {
  for (const Holding& holding : traits().holdings) {
    EXPECT_NE(std::string(holding.source).find(" @ "), std::string::npos) << holding.source;
  }
}

}  // namespace
}  // namespace planwright::targets::megatron_deepspeed
