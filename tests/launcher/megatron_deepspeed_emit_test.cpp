#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/targets/megatron_deepspeed/arguments.h"
#include "launcher/targets/megatron_deepspeed/emit.h"
#include "launcher/targets/megatron_deepspeed/traits.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::megatron_deepspeed {
namespace {

using testing::json_of;

/// A GPT of BigScience's kind on 8 devices: tp 2, pp 2, ZeRO 1 over 2.
launcher::EmitRequest request() {
  Candidate c;
  c.tp = c.pp = c.dp = 2;
  c.zero = 1;
  c.micro_batch = 2;
  c.recompute.kind = RecomputeKind::full;
  c.attention = AttentionKernel::eager;
  auto request = testing::emit_request("megatron-deepspeed", "0.5.10", c);
  Problem& p = request.plan.problem;
  p.model = {};
  p.model.name = "gpt-1b3";
  p.model.family = "gpt2";
  p.model.hidden = 2048;
  p.model.vocab = 50257;
  p.model.max_positions = 2048;
  p.model.positions = Positions::learned;
  p.model.tied_embeddings = true;
  p.model.runs = {{.count = 24,
                   .block = {.heads = 16,
                             .kv_heads = 16,
                             .head_dim = 128,
                             .ffn = 8192,
                             .qkv_bias = true,
                             .out_bias = true,
                             .mlp_bias = true}}};
  p.workload.seq = 2048;
  p.workload.precision = Precision::fp16;
  p.workload.recipe = traits().recipe(Precision::fp16).value();
  return request;
}

TEST(MegatronDeepspeedEmit, SaysAllThatDecidesAboutMemory) {
  EXPECT_EQ(arguments(request()), Json::parse(R"({
    "num-layers": 24, "hidden-size": 2048, "ffn-hidden-size": 8192, "num-attention-heads": 16,
    "kv-channels": 128, "max-position-embeddings": 2048, "layernorm-epsilon": 1e-05,
    "make-vocab-size-divisible-by": 128, "hidden-dropout": 0.0, "attention-dropout": 0.0,
    "tensor-model-parallel-size": 2, "pipeline-model-parallel-size": 2, "micro-batch-size": 2,
    "global-batch-size": 64, "seq-length": 2048, "fp16": true, "optimizer": "adam",
    "checkpoint-activations": true, "checkpoint-num-layers": 1,
    "deepspeed-activation-checkpointing": true, "zero-stage": 1, "train-iters": 10,
    "lr": 0.0001})"));
}

TEST(MegatronDeepspeedEmit, ConfiguresTheEngine) {
  EXPECT_EQ(json_of(emit(request()), "ds_config.json"), Json::parse(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0,
    "steps_per_print": 10, "wall_clock_breakdown": false,
    "fp16": {"enabled": true, "loss_scale": 0}, "bf16": {"enabled": false},
    "zero_optimization": {"stage": 1, "reduce_bucket_size": 500000000}})"));
}

/// The optimizer of bf16 shards its states without ZeRO.
TEST(MegatronDeepspeedEmit, HasNoStageWithBf16) {
  auto asked = request();
  asked.plan.problem.workload.recipe = traits().recipe(Precision::bf16).value();
  const auto config = emit(asked);
  EXPECT_EQ(json_of(config, "ds_config.json").at("zero_optimization").at("stage"), 0);
  EXPECT_EQ(arguments(asked).at("zero-stage"), 0);
  EXPECT_EQ(arguments(asked).at("bf16"), true);
}

TEST(MegatronDeepspeedEmit, StartsItsScriptWithBoth) {
  const auto config = emit(request());
  const std::vector<std::string> front(config.command.begin(), config.command.begin() + 4);
  EXPECT_EQ(front, (std::vector<std::string>{"torchrun", "--standalone", "--nproc-per-node=8",
                                             "pretrain_gpt.py"}));
  const std::vector<std::string> back(config.command.end() - 3, config.command.end());
  EXPECT_EQ(back, (std::vector<std::string>{"--deepspeed", "--deepspeed_config",
                                            "launch/ds_config.json"}));
  EXPECT_TRUE(testing::warns(config, "--data-path"));
  EXPECT_FALSE(testing::warns(config, "Microsoft"));
}

TEST(MegatronDeepspeedEmit, RecomputesRunsOfLayers) {
  auto asked = request();
  asked.plan.candidate.recompute = {RecomputeKind::chunk, 4, {}};
  EXPECT_EQ(arguments(asked).at("checkpoint-num-layers"), 4);
  asked.plan.candidate.recompute = {};
  EXPECT_FALSE(arguments(asked).contains("checkpoint-activations"));
}

TEST(MegatronDeepspeedEmit, SaysWhatOnlyTheOtherForkHas) {
  auto asked = request();
  asked.plan.candidate.attention = AttentionKernel::flash;
  asked.plan.problem.model.positions = Positions::rotary;
  EXPECT_EQ(arguments(asked).at("use-flash-attn-v2"), true);
  EXPECT_EQ(arguments(asked).at("use-rotary-position-embeddings"), true);
  EXPECT_TRUE(testing::warns(emit(asked), "Microsoft"));
}

TEST(MegatronDeepspeedEmit, CutsAProbeShort) {
  auto asked = request();
  asked.probe = true;
  asked.steps = 4;
  const Json all = arguments(asked);
  EXPECT_EQ(all.at("exit-interval"), 4);
  EXPECT_EQ(all.at("train-iters"), 4);
  EXPECT_EQ(all.at("log-interval"), 1);
  EXPECT_EQ(json_of(emit(asked), "ds_config.json").at("steps_per_print"), 1);
}

TEST(MegatronDeepspeedEmit, RefusesWhatTheEngineCannotBeTold) {
  testing::expect_refused(
      emit, request(),
      {{[](Problem&, Candidate& c) { c.zero = 2; }, {"zero 2"}},
       {[](Problem&, Candidate& c) { c.cp = 2, c.dp = 1; }, {"cp 2"}},
       {[](Problem&, Candidate& c) { c.sp = true; }, {"sequence parallelism"}},
       {[](Problem& p, Candidate& c) {
          p.workload.recipe = traits().recipe(Precision::bf16).value();
          c.zero = 0;
        },
        {"bf16", "zero is 0"}},
       {[](Problem&, Candidate& c) { c.schedule = Schedule::gpipe; }, {"1f1b", "gpipe"}},
       {[](Problem& p, Candidate&) { p.model.runs[0].block.kv_heads = 1; }, {"1 key/value heads"}},
       {[](Problem&, Candidate& c) { c.offload.optimizer = true; }, {"offload"}},
       {[](Problem&, Candidate& c) { c.loss = LossKernel::fused; }, {"loss fused"}},
       {[](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::lion; }, {"lion"}}});
}

}  // namespace
}  // namespace planwright::targets::megatron_deepspeed
