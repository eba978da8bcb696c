#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "launcher/targets/accelerate/emit.h"
#include "launcher/targets/accelerate/traits.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::accelerate {
namespace {

using testing::warns;

launcher::EmitRequest request() {
  return testing::emit_request("accelerate", "1.15.0", testing::sharded_candidate());
}

std::string body(const launcher::LaunchConfig& config) {
  const std::string text = testing::text_of(config, "accelerate.yaml");
  return text.substr(text.find("compute_environment"));
}

YAML::Node yaml(const launcher::LaunchConfig& config) {
  return YAML::Load(testing::text_of(config, "accelerate.yaml"));
}

TEST(AccelerateEmit, ShardsByFsdpTwoUnlessToldOtherwise) {
  EXPECT_EQ(body(emit(request())), R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 8
machine_rank: 0
use_cpu: false
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_offload_params: false
  fsdp_cpu_ram_efficient_loading: true
  fsdp_activation_checkpointing: true
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
)");
  auto asked = request();
  asked.plan.candidate.zero = 2;
  asked.plan.candidate.recompute = {};
  const YAML::Node block = yaml(emit(asked))["fsdp_config"];
  EXPECT_FALSE(block["fsdp_reshard_after_forward"].as<bool>());
  EXPECT_FALSE(block["fsdp_activation_checkpointing"].as<bool>());
}

TEST(AccelerateEmit, IsDdpAtZeroNought) {
  auto asked = request();
  asked.plan.candidate.zero = 0;
  auto config = emit(asked);
  EXPECT_EQ(yaml(config)["distributed_type"].as<std::string>(), "MULTI_GPU");
  EXPECT_FALSE(yaml(config)["fsdp_config"]);
  EXPECT_TRUE(warns(config, "recompute full", "gradient_checkpointing_enable"));
  EXPECT_TRUE(warns(config, "dtype=torch.float32"));

  asked.plan.problem.cluster.device.kind = DeviceKind::cpu;
  config = emit(asked);
  EXPECT_EQ(yaml(config)["distributed_type"].as<std::string>(), "MULTI_CPU");
  EXPECT_TRUE(yaml(config)["use_cpu"].as<bool>());
  EXPECT_EQ(config.command.front(), "torchrun") << "accelerate launch would start one process";
  EXPECT_EQ(config.environment.at("ACCELERATE_USE_CPU"), "true");
  EXPECT_EQ(config.environment.at("ACCELERATE_MIXED_PRECISION"), "bf16");
}

TEST(AccelerateEmit, ShardsByFsdpOneByItsKnob) {
  auto asked = request();
  asked.plan.candidate.knobs = {{"engine", "fsdp1"}};
  EXPECT_EQ(yaml(emit(asked))["fsdp_config"]["fsdp_sharding_strategy"].as<std::string>(),
            "FULL_SHARD");
  asked.plan.candidate.zero = 2;
  const YAML::Node block = yaml(emit(asked))["fsdp_config"];
  EXPECT_EQ(block["fsdp_version"].as<int>(), 1);
  EXPECT_EQ(block["fsdp_sharding_strategy"].as<std::string>(), "SHARD_GRAD_OP");

  asked.plan.problem.cluster.nodes = asked.plan.candidate.hsdp = 2;
  asked.plan.candidate.dp = 16;
  EXPECT_EQ(yaml(emit(asked))["fsdp_config"]["fsdp_sharding_strategy"].as<std::string>(),
            "HYBRID_SHARD_ZERO2");
}

TEST(AccelerateEmit, GathersAheadWhereTheEstimateDoes) {
  auto asked = request();
  Candidate& candidate = asked.plan.candidate;
  candidate.knobs = {{"engine", "fsdp1"}};
  EXPECT_FALSE(traits().overlaps(candidate));
  EXPECT_EQ(yaml(emit(asked))["fsdp_config"]["fsdp_backward_prefetch"].as<std::string>(),
            "NO_PREFETCH");
  candidate.knobs.emplace_back("backward_prefetch", "pre");
  EXPECT_TRUE(traits().overlaps(candidate));
  EXPECT_EQ(yaml(emit(asked))["fsdp_config"]["fsdp_backward_prefetch"].as<std::string>(),
            "BACKWARD_PRE");
}

TEST(AccelerateEmit, ShardsByDeepspeedByItsKnob) {
  auto asked = request();
  asked.plan.candidate.knobs = {{"engine", "deepspeed"}};
  asked.plan.candidate.zero = 3;
  asked.plan.candidate.offload = {.optimizer = true, .to = OffloadTo::nvme};
  const auto config = emit(asked);
  const YAML::Node block = yaml(config)["deepspeed_config"];
  EXPECT_EQ(yaml(config)["distributed_type"].as<std::string>(), "DEEPSPEED");
  EXPECT_EQ(block["zero_stage"].as<int>(), 3);
  EXPECT_EQ(block["gradient_accumulation_steps"].as<int>(), 8);
  EXPECT_EQ(block["offload_optimizer_device"].as<std::string>(), "nvme");
  EXPECT_EQ(block["offload_param_device"].as<std::string>(), "none");
  EXPECT_TRUE(block["zero3_init_flag"].as<bool>());
  EXPECT_TRUE(warns(config, "/local_nvme"));
  asked.plan.candidate.zero = 1;
  EXPECT_NE(testing::refusal(emit, asked).find("use --zero 3, or --offload-to cpu"),
            std::string::npos);
}

TEST(AccelerateEmit, MapsModelRanksAndReplicas) {
  auto asked = request();
  Candidate& c = asked.plan.candidate;
  c.tp = c.cp = 2;
  c.dp = 2;
  const auto config = emit(asked);
  const YAML::Node block = yaml(config)["parallelism_config"];
  EXPECT_EQ(block["parallelism_config_dp_replicate_size"].as<int>(), 1);
  EXPECT_EQ(block["parallelism_config_dp_shard_size"].as<int>(), 2);
  EXPECT_EQ(block["parallelism_config_tp_size"].as<int>(), 2);
  EXPECT_EQ(block["parallelism_config_cp_size"].as<int>(), 2);
  EXPECT_TRUE(warns(config, "tp 2", "tp_plan"));
  EXPECT_TRUE(warns(config, "cp 2", "maybe_context_parallel"));

  asked = request();
  asked.plan.candidate.hsdp = 2;
  const YAML::Node replicas = yaml(emit(asked))["parallelism_config"];
  EXPECT_EQ(replicas["parallelism_config_dp_replicate_size"].as<int>(), 2);
  EXPECT_EQ(replicas["parallelism_config_dp_shard_size"].as<int>(), 4);
}

TEST(AccelerateEmit, CountsProcessesOverAllNodes) {
  auto asked = request();
  asked.plan.problem.cluster.nodes = 2;
  asked.plan.candidate.dp = 16;
  const YAML::Node node = yaml(emit(asked));
  EXPECT_EQ(node["num_processes"].as<int>(), 16);
  EXPECT_EQ(node["num_machines"].as<int>(), 2);
  EXPECT_EQ(node["rdzv_backend"].as<std::string>(), "c10d");
}

TEST(AccelerateEmit, LeavesTheBatchToTheScriptAndSaysSo) {
  auto asked = request();
  asked.user.words = {"train.py"};
  const auto config = emit(asked);
  EXPECT_EQ(config.command, (std::vector<std::string>{"accelerate", "launch", "--config_file",
                                                      "launch/accelerate.yaml", "train.py"}));
  EXPECT_EQ(config.environment.at("ACCELERATE_GRADIENT_ACCUMULATION_STEPS"), "8");
  EXPECT_TRUE(warns(config, "micro-batch 1", "DataLoader"));
  EXPECT_TRUE(warns(config, "optimizer adamw"));
  EXPECT_TRUE(warns(config, "8 micro-batches", "accelerator.accumulate(model)"));
}

TEST(AccelerateEmit, NoNameBecomesAKey) {
  for (const std::string& text : testing::hostile_texts()) {
    auto asked = request();
    asked.plan.evidence.study = asked.plan.problem.model.name = text;
    EXPECT_EQ(body(emit(asked)), body(emit(request()))) << text;
    EXPECT_EQ(yaml(emit(asked)).size(), yaml(emit(request())).size()) << text;
  }
}

TEST(AccelerateEmit, RefusesWhatTheYamlCannotSay) {
  testing::expect_refused(
      emit, request(),
      {{[](Problem&, Candidate& c) { c.pp = 2, c.dp = 4; }, {"pp 2"}},
       {[](Problem&, Candidate& c) { c.zero = 1; }, {"zero 1", "engine=deepspeed"}},
       {[](Problem&, Candidate& c) { c.zero = 0, c.tp = 2, c.dp = 4; }, {"tp 2", "FSDP2"}},
       {[](Problem&, Candidate& c) { c.tp = 8, c.dp = 1; }, {"no ranks to shard over", "tp 8"}},
       {[](Problem&, Candidate& c) { c.tp = 2, c.dp = 4, c.sp = true; }, {"sp on"}},
       {[](Problem&, Candidate& c) { c.hsdp = 3; }, {"hsdp 3", "dp 8"}},
       {[](Problem&, Candidate& c) {
          c.hsdp = 2, c.knobs = {{"engine", "fsdp1"}};
        },
        {"one replica per node"}},
       {[](Problem&, Candidate& c) {
          c.hsdp = 2, c.knobs = {{"engine", "deepspeed"}};
        },
        {"hsdp 2", "fsdp2"}},
       {[](Problem&, Candidate& c) {
          c.knobs = {{"backward_prefetch", "pre"}};
        },
        {"backward_prefetch is FSDP1's"}},
       {[](Problem&, Candidate& c) { c.offload.optimizer = true; }, {"offload optimizer to cpu"}},
       {[](Problem&, Candidate& c) { c.recompute.kind = RecomputeKind::op; }, {"recompute op"}},
       {[](Problem& p, Candidate&) { p.workload.recipe.master.reset(); }, {"fp32"}},
       {[](Problem& p, Candidate& c) { p.workload.seq = 4098, c.cp = 2, c.dp = 4; }, {"cp 2"}},
       {[](Problem& p, Candidate&) { p.cluster.device.kind = DeviceKind::cpu; },
        {"accelerators only"}}});
}

}  // namespace
}  // namespace planwright::targets::accelerate
