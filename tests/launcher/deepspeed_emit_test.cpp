#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/targets/deepspeed/emit.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::deepspeed {
namespace {

using testing::has_file;
using testing::json_of;
using testing::warns;

launcher::EmitRequest request() {
  return testing::emit_request("deepspeed", "0.19.8", testing::sharded_candidate());
}

TEST(DeepspeedEmit, WritesEveryValueThatVersionsDefaultDifferently) {
  const Json json = json_of(emit(request()), "ds_config.json");
  const Json expected = Json::parse(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
    "gradient_clipping": 1.0, "steps_per_print": 10, "wall_clock_breakdown": false,
    "bf16": {"enabled": true}, "fp16": {"enabled": false},
    "data_types": {"grad_accum_dtype": "fp32"},
    "zero_optimization": {
      "stage": 3, "overlap_comm": true, "contiguous_gradients": true, "reduce_scatter": true,
      "reduce_bucket_size": 500000000, "sub_group_size": 1000000000,
      "stage3_prefetch_bucket_size": 50000000, "stage3_param_persistence_threshold": 100000,
      "stage3_max_live_parameters": 1000000000, "stage3_max_reuse_distance": 1000000000,
      "stage3_gather_16bit_weights_on_model_save": true},
    "optimizer": {"type": "AdamW", "params": {}},
    "activation_checkpointing": {
      "partition_activations": false, "cpu_checkpointing": false,
      "contiguous_memory_optimization": false, "synchronize_checkpoint_boundary": false,
      "profile": false}})");
  EXPECT_EQ(json.dump(2), expected.dump(2));
}

TEST(DeepspeedEmit, FollowsTheStage) {
  for (const int zero : {0, 1, 2}) {
    auto asked = request();
    asked.plan.candidate.zero = zero;
    const Json json = json_of(emit(asked), "ds_config.json");
    const Json& block = json.at("zero_optimization");
    EXPECT_EQ(block.at("stage"), zero);
    EXPECT_EQ(block.at("overlap_comm"), false);
    EXPECT_EQ(block.at("allgather_bucket_size"), 500000000);
    EXPECT_FALSE(block.contains("stage3_max_live_parameters"));
    EXPECT_EQ(json.at("data_types").at("grad_accum_dtype"), zero == 0 ? "bf16" : "fp32");
    EXPECT_EQ(warns(emit(asked), "at zero 0", "in bf16, not in fp32"), zero == 0);
  }
}

TEST(DeepspeedEmit, OffloadsWhatThePlanSays) {
  auto asked = request();
  asked.plan.candidate.offload = {.optimizer = true, .params = true, .activations = true};
  Json json = json_of(emit(asked), "ds_config.json");
  EXPECT_EQ(json.at("zero_optimization").at("offload_optimizer"),
            Json::parse(R"({"device": "cpu", "pin_memory": true})"));
  EXPECT_EQ(json.at("zero_optimization").at("offload_param").at("device"), "cpu");
  EXPECT_EQ(json.at("activation_checkpointing").at("cpu_checkpointing"), true);

  asked.plan.candidate.offload = {.optimizer = true, .to = OffloadTo::nvme};
  json = json_of(emit(asked), "ds_config.json");
  EXPECT_EQ(json.at("zero_optimization").at("offload_optimizer").at("nvme_path"), "/local_nvme");
  EXPECT_FALSE(json.at("zero_optimization").contains("offload_param"));
  EXPECT_TRUE(warns(emit(asked), "/local_nvme"));
}

/// A rank's part of the embedding, 128256 x 4096, is what one of 8 ranks has of it, or all:
/// reported as "More elements ... than buffer size 100,000,000", deepspeedai/DeepSpeed#3506.
TEST(DeepspeedEmit, HasBuffersForTheLargestWeightOnADisk) {
  auto asked = request();
  asked.plan.candidate.offload = {.optimizer = true, .params = true, .to = OffloadTo::nvme};
  const auto buffer = [&] {
    const Json zero = json_of(emit(asked), "ds_config.json").at("zero_optimization");
    return zero.at("offload_param").value("buffer_size", 0);
  };
  EXPECT_EQ(buffer(), 0) << "65.7e6 elements each: the usual buffer has room";
  asked.plan.candidate.dp = asked.plan.problem.cluster.per_node = 1;
  EXPECT_EQ(buffer(), 128256 * 4096);
}

TEST(DeepspeedEmit, TakesItsKnobs) {
  auto asked = request();
  asked.plan.candidate.knobs = {{"reduce_bucket_size", "50000000"}, {"overlap_comm", "off"}};
  const Json block = json_of(emit(asked), "ds_config.json").at("zero_optimization");
  EXPECT_EQ(block.at("reduce_bucket_size"), 50000000);
  EXPECT_EQ(block.at("stage3_prefetch_bucket_size"), 5000000);
  EXPECT_EQ(block.at("overlap_comm"), false);
}

TEST(DeepspeedEmit, StartsThroughTorchrunAndThroughDeepspeedsLauncher) {
  auto asked = request();
  asked.user.words = {"train.py", "--data", "here"};
  auto config = emit(asked);
  EXPECT_EQ(config.command,
            (std::vector<std::string>{"torchrun", "--standalone", "--nproc-per-node=8", "train.py",
                                      "--deepspeed", "--deepspeed_config", "launch/ds_config.json",
                                      "--data", "here"}));
  EXPECT_FALSE(has_file(config, "hostfile"));
  auto words = testing::words_of_script(testing::text_of(config, "launch_deepspeed.sh"));
  EXPECT_EQ(words[0], "deepspeed");
  EXPECT_EQ(words[1], "--num_gpus=8");
  EXPECT_EQ(words[2], "--no_local_rank");
  EXPECT_EQ(words[6], "HERE/ds_config.json");
  words[6] = "launch/ds_config.json";
  EXPECT_EQ(std::vector(words.begin() + 3, words.end()),
            std::vector(config.command.begin() + 3, config.command.end()));
  asked.user.launcher = "deepspeed";
  EXPECT_EQ(emit(asked).command, words);
  asked.user.launcher = "depspeed";
  EXPECT_NE(testing::refusal(emit, asked).find("torchrun or deepspeed"), std::string::npos);
  asked.user.launcher.clear();

  asked.plan.problem.cluster.nodes = 2;
  asked.plan.candidate.dp = 16;
  config = emit(asked);
  const std::string hosts = testing::text_of(config, "hostfile");
  EXPECT_NE(hosts.find("\nHEAD_NODE slots=8\nNODE_1 slots=8\n"), std::string::npos) << hosts;
}

TEST(DeepspeedEmit, LogsEachStepOfAProbe) {
  auto asked = request();
  asked.probe = true;
  const Json json = json_of(emit(asked), "ds_config.json");
  EXPECT_EQ(json.at("steps_per_print"), 1);
  EXPECT_EQ(json.at("wall_clock_breakdown"), true);
}

TEST(DeepspeedEmit, SaysWhatThePlanHasAndTheFileHasNot) {
  auto asked = request();
  EXPECT_TRUE(warns(emit(asked), "recompute full", "deepspeed.checkpointing"));
  EXPECT_TRUE(warns(emit(asked), "learning rate"));
  EXPECT_FALSE(warns(emit(asked), "attention"));
  asked.plan.candidate.attention = AttentionKernel::eager;
  asked.plan.candidate.loss = LossKernel::chunked;
  asked.plan.candidate.recompute = {};
  asked.plan.problem.workload.optimizer = OptimizerKind::paged_adam8bit;
  asked.plan.problem.workload.job = Job::qlora;
  const auto config = emit(asked);
  EXPECT_FALSE(warns(config, "recompute"));
  EXPECT_TRUE(warns(config, "attention eager"));
  EXPECT_TRUE(warns(config, "loss chunked", "builtin"));
  EXPECT_TRUE(warns(config, "optimizer paged-adam8bit", "deepspeed.initialize"));
  EXPECT_TRUE(warns(config, "job qlora"));
  EXPECT_FALSE(json_of(config, "ds_config.json").contains("optimizer"));
  EXPECT_EQ(json_of(config, "ds_config.json").at("zero_allow_untested_optimizer"), true);
}

TEST(DeepspeedEmit, RunsOnCpuRanks) {
  auto asked = request();
  asked.plan.problem.cluster.device.kind = DeviceKind::cpu;
  const auto config = emit(asked);
  EXPECT_EQ(config.environment.at("DS_ACCELERATOR"), "cpu");
  EXPECT_EQ(json_of(config, "ds_config.json").at("optimizer").at("params").at("torch_adam"), true);
}

TEST(DeepspeedEmit, SharesMatricesOutByAutoTp) {
  auto asked = request();
  asked.plan.candidate.tp = 2;
  asked.plan.candidate.dp = 4;
  const auto config = emit(asked);
  const Json json = json_of(config, "ds_config.json");
  EXPECT_EQ(json.at("tensor_parallel").at("autotp_size"), 2);
  EXPECT_FALSE(json.contains("train_batch_size")) << "which would be taken for all ranks'";
  EXPECT_EQ(json.at("gradient_accumulation_steps"), 16);
  EXPECT_TRUE(warns(config, "tp 2", "same batch"));
}

TEST(DeepspeedEmit, RefusesWhatTheJsonCannotSay) {
  testing::expect_refused(
      emit, request(),
      {{[](Problem&, Candidate& c) { c.pp = 2, c.dp = 4; }, {"pp 2"}},
       {[](Problem&, Candidate& c) { c.cp = 2, c.dp = 4; }, {"cp 2"}},
       {[](Problem&, Candidate& c) { c.tp = 2, c.dp = 4, c.sp = true; }, {"sp on"}},
       {[](Problem&, Candidate& c) { c.tp = 3, c.dp = 1; }, {"tp 3", "8 key/value heads"}},
       {[](Problem&, Candidate& c) { c.hsdp = 2; }, {"hsdp 2"}},
       {[](Problem&, Candidate& c) {
          c.stages = {StagePlan{32, {}, {}}};
        },
        {"stage"}},
       {[](Problem&, Candidate& c) {
          c.recompute = {RecomputeKind::alternate, 2, {}};
        },
        {"recompute alternate:2"}},
       {[](Problem&, Candidate& c) { c.zero = 0, c.offload.optimizer = true; }, {"zero is 0"}},
       {[](Problem&, Candidate& c) { c.zero = 2, c.offload.params = true; },
        {"weights", "--zero 3"}},
       {[](Problem&, Candidate& c) { c.recompute = {}, c.offload.activations = true; },
        {"activations", "recompute none"}},
       {[](Problem& p, Candidate& c) {
          p.workload.optimizer = OptimizerKind::sgd;
          c.offload.optimizer = true;
        },
        {"sgd", "adamw or lion"}},
       {[](Problem& p, Candidate&) { p.workload.recipe.master.reset(); }, {"master weights"}},
       {[](Problem&, Candidate& c) {
          c.knobs = {{"overlap_comm", "maybe"}};
        },
        {"auto, on or off"}}});
}

}  // namespace
}  // namespace planwright::targets::deepspeed
