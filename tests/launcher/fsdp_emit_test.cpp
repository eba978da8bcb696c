#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "launcher/targets/fsdp/emit.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::fsdp {
namespace {

using testing::json_of;

launcher::EmitRequest request() {
  return testing::emit_request("fsdp", "2.11.0", testing::sharded_candidate());
}

std::vector<int> all_blocks() {
  std::vector<int> blocks(32);
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

TEST(FsdpEmit, SaysWhatTorchIsToBeTold) {
  Json expected = Json::parse(R"({
    "schema": "planwright.fsdp/1", "wrap": "fully_shard", "mesh": {"dp_replicate": 1, "dp_shard": 8},
    "reshard_after_forward": true, "cpu_offload": false, "storage_dtype": "float32",
    "param_dtype": "bfloat16", "reduce_dtype": "float32", "checkpoint_blocks": [],
    "offload_checkpoints": false, "micro_batch_size": 1, "gradient_accumulation_steps": 8, "sequence_length": 4096,
    "optimizer": "adamw", "attention": "flash", "loss": "plain"})");
  expected["checkpoint_blocks"] = all_blocks();
  EXPECT_EQ(json_of(emit(request()), "fsdp_settings.json").dump(2), expected.dump(2));
}

TEST(FsdpEmit, NamesTheLossThatAPackageBrings) {
  auto asked = request();
  asked.plan.candidate.loss = LossKernel::fused;
  asked.plan.candidate.knobs = {{"fused_loss", "flash_attn"}};
  EXPECT_EQ(json_of(emit(asked), "fsdp_settings.json").at("loss"), "fused");
  asked.plan.candidate.knobs.clear();
  EXPECT_THROW(emit(asked), InputError);
}

TEST(FsdpEmit, NamesTheCheckpointedBlocks) {
  const std::pair<Recompute, Json> cases[] = {
      {{RecomputeKind::none, 0, {}}, Json::array()},
      {{RecomputeKind::alternate, 8, {}}, Json{0, 8, 16, 24}},
      {{RecomputeKind::first, 3, {}}, Json{0, 1, 2}},
      {{RecomputeKind::full, 0, {}}, Json(all_blocks())}};
  for (const auto& [recompute, blocks] : cases) {
    auto asked = request();
    asked.plan.candidate.recompute = recompute;
    EXPECT_EQ(json_of(emit(asked), "fsdp_settings.json").at("checkpoint_blocks"), blocks);
  }
}

TEST(FsdpEmit, FollowsStageReplicasAndOffload) {
  auto asked = request();
  asked.plan.candidate.zero = 2;
  asked.plan.candidate.hsdp = 2;
  asked.plan.candidate.offload = {.optimizer = true, .params = true};
  Json json = json_of(emit(asked), "fsdp_settings.json");
  EXPECT_EQ(json.at("mesh"), Json::parse(R"({"dp_replicate": 2, "dp_shard": 4})"));
  EXPECT_EQ(json.at("reshard_after_forward"), false);
  EXPECT_EQ(json.at("cpu_offload"), true);
  EXPECT_EQ(json.at("offload_checkpoints"), false);

  asked = request();
  asked.plan.candidate.offload = {.activations = true};
  json = json_of(emit(asked), "fsdp_settings.json");
  EXPECT_EQ(json.at("cpu_offload"), false);
  EXPECT_EQ(json.at("offload_checkpoints"), true);

  asked = request();
  asked.plan.candidate.zero = 0;
  json = json_of(emit(asked), "fsdp_settings.json");
  EXPECT_EQ(json.at("wrap"), "ddp");
  EXPECT_EQ(json.at("mesh"), Json::parse(R"({"dp_replicate": 8, "dp_shard": 1})"));
}

TEST(FsdpEmit, NamesTheOlderWrapperWhereItIsAskedFor) {
  auto asked = request();
  asked.plan.candidate.knobs = {{"engine", "fsdp1"}};
  const Json json = json_of(emit(asked), "fsdp_settings.json");
  EXPECT_EQ(json.at("wrap"), "FullyShardedDataParallel");
  EXPECT_TRUE(json.at("backward_prefetch").is_null());
  asked.plan.candidate.knobs.emplace_back("backward_prefetch", "pre");
  EXPECT_EQ(json_of(emit(asked), "fsdp_settings.json").at("backward_prefetch"), "BACKWARD_PRE");
  asked.plan.candidate.zero = 0;
  EXPECT_NE(testing::refusal(emit, asked).find("FSDP1 shards, and zero is 0"), std::string::npos);
}

TEST(FsdpEmit, StoresWhatTheOptimizerUpdates) {
  auto asked = request();
  asked.plan.problem.workload.recipe = {DType::bf16, DType::bf16, DType::bf16, std::nullopt,
                                        DType::bf16};
  const Json json = json_of(emit(asked), "fsdp_settings.json");
  EXPECT_EQ(json.at("storage_dtype"), "bfloat16");
  EXPECT_EQ(json.at("reduce_dtype"), "bfloat16");
}

TEST(FsdpEmit, StartsTheScriptWithTheSettings) {
  auto asked = request();
  asked.probe = true;
  asked.steps = 5;
  asked.user.words = {"shard.py"};
  const auto config = emit(asked);
  EXPECT_EQ(config.command,
            (std::vector<std::string>{"torchrun", "--standalone", "--nproc-per-node=8", "shard.py",
                                      "--settings", "launch/fsdp_settings.json"}));
  EXPECT_EQ(json_of(config, "fsdp_settings.json").at("max_steps"), 5);
}

TEST(FsdpEmit, NoNameChangesTheSettings) {
  for (const std::string& text : testing::hostile_texts()) {
    auto asked = request();
    asked.plan.evidence.study = asked.plan.problem.model.name = text;
    EXPECT_EQ(testing::text_of(emit(asked), "fsdp_settings.json"),
              testing::text_of(emit(request()), "fsdp_settings.json"));
  }
}

TEST(FsdpEmit, RefusesWhatFullyShardCannotBeTold) {
  testing::expect_refused(
      emit, request(),
      {{[](Problem&, Candidate& c) { c.zero = 1; }, {"zero 1"}},
       {[](Problem&, Candidate& c) { c.tp = 2, c.dp = 4; }, {"tp 2"}},
       {[](Problem&, Candidate& c) { c.pp = 2, c.dp = 4; }, {"pp 2"}},
       {[](Problem&, Candidate& c) { c.cp = 2, c.dp = 4; }, {"cp 2"}},
       {[](Problem&, Candidate& c) { c.hsdp = 8; }, {"hsdp 8"}},
       {[](Problem&, Candidate& c) { c.offload.optimizer = true; }, {"offload optimizer"}},
       {[](Problem&, Candidate& c) { c.recompute = {}, c.offload.activations = true; },
        {"recompute none", "--recompute full"}},
       {[](Problem&, Candidate& c) { c.recompute.kind = RecomputeKind::selective; },
        {"recompute selective"}}});
}

}  // namespace
}  // namespace planwright::targets::fsdp
