#include <gtest/gtest.h>

#include <set>

#include "estimator/spec/rules.h"
#include "launcher/targets/nanotron/emit.h"
#include "launcher/targets/nanotron/rules.h"
#include "launcher/targets/nanotron/split.h"
#include "launcher/targets/nanotron/traits.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::nanotron {
namespace {

/// Llama-3.1-8B on 8 devices, dp 8, 64 sequences a step.
launcher::EmitRequest request() {
  Candidate candidate;
  candidate.dp = 8;
  candidate.zero = 1;
  launcher::EmitRequest asked = testing::emit_request("nanotron", "0.4", candidate);
  asked.plan.problem.workload.recipe = traits().recipe(Precision::bf16).value();
  return asked;
}

BlockSpec& block_of(Problem& problem) { return problem.model.runs[0].block; }

void ranks(Candidate& c, int tp, int pp = 1) {
  c.tp = tp;
  c.pp = pp;
  c.dp = 8 / (tp * pp);
  if (c.dp == 1) c.zero = 0;
}

const std::vector<testing::Refused> kRefused = {
    {[](Problem& p, Candidate&) { p.cluster.device.kind = DeviceKind::cpu; }, {"GPUs"}},
    {[](Problem& p, Candidate&) { p.workload.job = Job::inference; }, {"inference"}},
    {[](Problem& p, Candidate&) { p.workload.job = Job::lora; }, {"adapters"}},
    {[](Problem& p, Candidate&) { p.workload.precision = Precision::fp16; }, {"precision fp16"}},
    {[](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::lion; }, {"lion"}},
    {[](Problem& p, Candidate&) { p.workload.recipe.gradient = DType::bf16; },
     {"accumulate_grad_in_fp32", "--grad-dtype"}},
    {[](Problem& p, Candidate&) { p.workload.hidden_dropout = 0.1; }, {"no dropout"}},
    {[](Problem&, Candidate& c) {
       c.knobs = {{"tp_recompute_allgather", "maybe"}};
     },
     {"knob", "tp_recompute_allgather = on or off"}},
    // The model.
    {[](Problem& p, Candidate&) { block_of(p).qkv_bias = true; }, {"Llama"}},
    {[](Problem& p, Candidate&) { block_of(p).mlp = MlpKind::plain; }, {"Llama"}},
    {[](Problem& p, Candidate&) { block_of(p).sliding_window = 1024; }, {"Llama"}},
    {[](Problem& p, Candidate&) { p.model.positions = Positions::learned; }, {"Llama"}},
    {[](Problem&, Candidate& c) { c.attention = AttentionKernel::eager; }, {"flash-attn"}},
    {[](Problem&, Candidate& c) { c.loss = LossKernel::fused; }, {"loss fused"}},
    // Tensor ranks.
    {[](Problem& p, Candidate& c) { ranks(c, 8), block_of(p).kv_heads = 4; },
     {"tp 8", "4 key/value heads"}},
    {[](Problem& p, Candidate& c) { ranks(c, 4), block_of(p).ffn = 14338; }, {"tp 4", "MLP"}},
    {[](Problem&, Candidate& c) { c.sp = true; }, {"REDUCE_SCATTER", "--sp off"}},
    {[](Problem& p, Candidate& c) { ranks(c, 4), c.sp = true, p.workload.seq = 4098; },
     {"tp 4", "4098"}},
    {[](Problem&, Candidate& c) {
       ranks(c, 4);
       c.knobs = {{"tp_recompute_allgather", "off"}};
     },
     {"keeps what sp gathers", "--sp on"}},
    // Stages.
    {[](Problem&, Candidate& c) { ranks(c, 1, 2), c.vpp = 2; }, {"vpp 2"}},
    {[](Problem&, Candidate& c) { c.schedule = Schedule::gpipe; }, {"schedule gpipe", "pp 1"}},
    {[](Problem&, Candidate& c) { ranks(c, 1, 2), c.schedule = Schedule::zero_bubble; },
     {"schedule zb"}},
    {[](Problem& p, Candidate& c) { ranks(c, 1, 8), p.workload.global_batch = 6; },
     {"pp - 1 micro-batches", "6 at pp 8", "--schedule gpipe"}},
    {[](Problem& p, Candidate& c) { ranks(c, 1, 8), p.model.runs[0].count = 2; },
     {"without any part", "pp 8"}},
    {[](Problem&, Candidate& c) {
       ranks(c, 1, 2);
       c.stages = {StagePlan{20, {}, {}}, StagePlan{12, {}, {}}};
     },
     {"stage"}},
    // Data ranks.
    {[](Problem&, Candidate& c) { c.zero = 2; }, {"optimizer's states", "zero 2"}},
    {[](Problem&, Candidate& c) { c.tp = 8, c.dp = 1; }, {"dp is 1", "--zero 0"}},
    {[](Problem&, Candidate& c) { c.offload.optimizer = true; }, {"offload optimizer"}},
    {[](Problem&, Candidate& c) {
       c.recompute = {RecomputeKind::first, 2, {}};
     },
     {"first:2"}},
};

TEST(NanotronTraits, RefusePlansThatNanotronCannotRun) {
  testing::expect_refused(emit, request(), kRefused);
}

TEST(NanotronTraits, TakeAfabWithFewerMicroBatchesThanStages) {
  launcher::EmitRequest asked = request();
  ranks(asked.plan.candidate, 1, 8);
  asked.plan.problem.workload.global_batch = 6;
  asked.plan.candidate.schedule = Schedule::gpipe;
  EXPECT_EQ(testing::refusal(emit, asked), "");
}

TEST(NanotronTraits, HaveSourcesAndEachRuleOnce) {
  for (const Holding& holding : traits().holdings) {
    EXPECT_NE(std::string(holding.source).find(" @ "), std::string::npos) << holding.source;
    EXPECT_TRUE(holding.bytes_each);
  }
  std::set<std::string> names;
  for (const Rule& rule : traits().rules) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " is there twice";
    EXPECT_NE(rule.source.find(" @ "), std::string::npos) << rule.name;
  }
}

/// Llamas with a vocabulary of 131072 and as many key/value heads as heads.
ModelSpec llama(std::int64_t layers, std::int64_t hidden, std::int64_t ffn, bool tied) {
  ModelSpec model = testing::llama_8b();
  model.hidden = hidden;
  model.vocab = 131072;
  model.tied_embeddings = tied;
  BlockSpec& block = model.runs[0].block;
  model.runs[0].count = layers;
  block.heads = block.kv_heads = 32;
  block.head_dim = hidden / 32;
  block.ffn = ffn;
  return model;
}

ModelSpec small() { return llama(16, 2048, 8192, true); }
ModelSpec large() { return llama(32, 4096, 14336, false); }

using Layers = std::vector<std::int64_t>;

/// The small one's head costs as much as 4 blocks, 131072 x 2048 = 4 (4 x 2048 + 3 x 8192) x 2048:
/// of 20 blocks' worth the first of two stages has more than 10 with the 11th.
TEST(NanotronSplit, GivesEachStageMoreThanItsShareOfTheCost) {
  EXPECT_EQ(stage_layers(small(), 1), (Layers{16}));
  EXPECT_EQ(stage_layers(small(), 2), (Layers{11, 5}));
  EXPECT_EQ(stage_layers(small(), 4), (Layers{6, 5, 5, 0}));
  EXPECT_EQ(stage_layers(small(), 8), (Layers{3, 3, 2, 3, 2, 3, 0, 0}));
  EXPECT_EQ(stage_layers(large(), 2), (Layers{18, 14}));
  EXPECT_EQ(stage_layers(large(), 4), (Layers{9, 9, 8, 6}));
  EXPECT_EQ(stage_layers(large(), 16), (Layers{3, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 0}));
}

TEST(NanotronSplit, LeavesStagesWithoutAPartWhereTheHeadCostsMuch) {
  const std::vector<StageParts> of_small = split(small(), 16);
  EXPECT_EQ(of_small.back(), StageParts{});
  EXPECT_NE(split(small(), 8).back(), StageParts{}) << "the cast and the loss";
  EXPECT_NE(split(large(), 32).back(), StageParts{});
  EXPECT_EQ(split(large(), 64).back(), StageParts{});
}

TEST(NanotronSplit, CountsModelsOfThePublishedSizes) {
  EXPECT_NEAR(static_cast<double>(parameter_counts(small()).total), 1.342e9, 0.001e9);
  EXPECT_NEAR(static_cast<double>(parameter_counts(large()).total), 8.859e9, 0.001e9);
}

}  // namespace
}  // namespace planwright::targets::nanotron
