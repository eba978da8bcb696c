#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/targets/hf_trainer/emit.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::hf_trainer {
namespace {

using testing::has_file;
using testing::json_of;
using testing::warns;

launcher::EmitRequest request() {
  return testing::emit_request("hf-trainer", "5.23.0", testing::sharded_candidate());
}

std::string body(const launcher::LaunchConfig& config) {
  const std::string text = testing::text_of(config, "training_arguments.yaml");
  return text.substr(text.find("per_device"));
}

YAML::Node yaml(const launcher::LaunchConfig& config) {
  return YAML::Load(testing::text_of(config, "training_arguments.yaml"));
}

/// The word after `option` in the command.
std::string given(const launcher::LaunchConfig& config, const std::string& option) {
  const auto found = std::find(config.command.begin(), config.command.end(), option);
  return found == config.command.end() ? "" : *(found + 1);
}

TEST(HfTrainerEmit, ShardsByFsdpWithItsOwnCheckpointing) {
  EXPECT_EQ(body(emit(request())), R"(per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
fp16: false
gradient_checkpointing: false
optim: adamw_torch_fused
max_grad_norm: 1.0
logging_steps: 10
fsdp: true
fsdp_config:
  version: 2
  reshard_after_forward: true
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  cpu_offload: false
  cpu_ram_efficient_loading: true
  state_dict_type: SHARDED_STATE_DICT
  activation_checkpointing: true
)");
}

TEST(HfTrainerEmit, TheCommandSaysWhatTheFileSays) {
  auto asked = request();
  asked.user.words = {"train.py"};
  const auto config = emit(asked);
  EXPECT_EQ(given(config, "--per_device_train_batch_size"), "1");
  EXPECT_EQ(given(config, "--gradient_accumulation_steps"), "8");
  EXPECT_EQ(given(config, "--bf16"), "true");
  EXPECT_EQ(given(config, "--optim"), "adamw_torch_fused");
  EXPECT_EQ(given(config, "--fsdp_config"), "launch/fsdp_config.json");
  EXPECT_EQ(given(config, "--fsdp"), "--fsdp_config") << "a word behind it would be a strategy";
  EXPECT_EQ(json_of(config, "fsdp_config.json").at("reshard_after_forward"), true);
  EXPECT_EQ(config.command.at(3), "train.py");
}

TEST(HfTrainerEmit, KnowsWhichKernelsBringALoss) {
  const auto refused = [](LossKernel loss, const char* kernels) {
    auto asked = request();
    asked.plan.candidate.loss = loss;
    asked.plan.candidate.knobs = {{"kernels", kernels}};
    return testing::refusal(emit, asked);
  };
  EXPECT_NE(refused(LossKernel::fused, "eager"), "");
  EXPECT_NE(refused(LossKernel::plain, "liger"), "");
  EXPECT_TRUE(warns(emit([] {
                      auto asked = request();
                      asked.plan.candidate.loss = LossKernel::fused;
                      asked.plan.candidate.knobs = {{"kernels", "unsloth"}};
                      return asked;
                    }()),
                    "Unsloth"));
}

TEST(HfTrainerEmit, SaysHowModulesRun) {
  auto asked = request();
  asked.plan.candidate.knobs = {
      {"engine", "fsdp1"}, {"transformers", "4.48"}, {"kernels", "liger"}, {"autocast", "off"}};
  asked.plan.candidate.loss = LossKernel::chunked;
  const YAML::Node file = yaml(emit(asked));
  EXPECT_FALSE(file["bf16"].as<bool>());
  EXPECT_TRUE(file["use_liger_kernel"].as<bool>());
  EXPECT_EQ(file["optim"].as<std::string>(), "adamw_torch");
  EXPECT_TRUE(file["gradient_checkpointing"].as<bool>()) << "its own, which is reentrant";
  EXPECT_EQ(file["fsdp_config"]["version"].as<int>(), 1);
  EXPECT_EQ(file["fsdp_config"]["reshard_after_forward"].as<std::string>(), "full_shard");
  EXPECT_FALSE(file["fsdp_config"]["activation_checkpointing"].as<bool>());
  EXPECT_EQ(file["fsdp_config"]["backward_prefetch"].as<std::string>(), "NO_PREFETCH");
}

TEST(HfTrainerEmit, SaysWhatItsFilesDoNot) {
  auto asked = request();
  asked.plan.problem.workload.job = Job::lora;
  asked.plan.problem.model.lora = {.rank = 8,
                                   .targets = {LoraTarget::q_proj, LoraTarget::down_proj}};
  asked.plan.candidate.knobs = {{"transformers", "4.45"}, {"lora_dropout", "on"}};
  EXPECT_TRUE(warns(emit(asked), "rank 8, on q_proj, down_proj; lora_dropout on"));
  EXPECT_TRUE(warns(emit(asked), "transformers 4.45", "written for hf-trainer 5.23.0"));
  asked.plan.problem.workload.job = Job::finetune;
  asked.plan.problem.model.lora = {};
  EXPECT_NE(testing::refusal(emit, asked), "") << "what adapters drop, and there are none";
}

/// UR-036: lm-sys/FastChat#114; UR-039: NovaSky-AI/SkyRL#1419.
TEST(HfTrainerEmit, SaysWhatLoadingTakesOfTheHost) {
  auto asked = request();
  asked.plan.candidate.zero = 0;
  EXPECT_TRUE(warns(emit(asked), "each of a node's 8 ranks loads all weights in float32",
                    "239.3 GiB of the host's memory"));
  asked.plan.problem.cluster.host_memory = Bytes{std::int64_t{200} << 30};
  EXPECT_TRUE(warns(emit(asked), "loads all weights", "which is 200.0 GiB"));
  asked.plan.candidate.zero = 3;
  EXPECT_FALSE(warns(emit(asked), "loads all weights")) << "the first rank does, and has room";
  asked.plan.problem.cluster.host_memory = Bytes{std::int64_t{16} << 30};
  EXPECT_TRUE(warns(emit(asked), "rank 0 loads all weights", "29.9 GiB"));
  asked.plan.candidate.knobs = {{"engine", "deepspeed"}};
  EXPECT_FALSE(warns(emit(asked), "before training")) << "each rank loads its part";
  asked.plan.candidate.zero = 2;
  EXPECT_TRUE(warns(emit(asked), "8 ranks loads all weights in bfloat16", "119.7 GiB"));
}

TEST(HfTrainerEmit, CheckpointsByItselfWithoutFsdp) {
  auto asked = request();
  asked.plan.candidate.zero = 0;
  const auto config = emit(asked);
  EXPECT_TRUE(yaml(config)["gradient_checkpointing"].as<bool>());
  EXPECT_FALSE(yaml(config)["fsdp"]);
  EXPECT_FALSE(has_file(config, "fsdp_config.json"));
  EXPECT_TRUE(warns(config, "dtype=torch.float32"));
}

TEST(HfTrainerEmit, ShardsByDeepspeedByItsKnob) {
  auto asked = request();
  asked.plan.candidate.knobs = {{"engine", "deepspeed"}};
  asked.plan.candidate.offload = {.optimizer = true, .params = true};
  const auto config = emit(asked);
  EXPECT_EQ(given(config, "--deepspeed"), "launch/ds_config.json");
  const Json json = json_of(config, "ds_config.json");
  EXPECT_EQ(json.at("train_micro_batch_size_per_gpu"), "auto");
  EXPECT_EQ(json.at("zero_optimization").at("stage"), 3);
  EXPECT_EQ(json.at("zero_optimization").at("offload_param").at("device"), "cpu");
  EXPECT_EQ(json.at("optimizer").at("params").at("lr"), "auto");
  EXPECT_TRUE(yaml(config)["gradient_checkpointing"].as<bool>());
  EXPECT_TRUE(warns(config, "before the model is loaded"));
}

TEST(HfTrainerEmit, OffloadsActivationsByTrlsArgument) {
  auto asked = request();
  EXPECT_FALSE(yaml(emit(asked))["activation_offloading"]);
  asked.plan.candidate.offload = {.activations = true};
  const auto config = emit(asked);
  EXPECT_TRUE(yaml(config)["activation_offloading"].as<bool>());
  EXPECT_EQ(given(config, "--activation_offloading"), "true");
  EXPECT_FALSE(yaml(config)["fsdp_config"]["cpu_offload"].as<bool>());
  EXPECT_TRUE(warns(config, "SFTConfig"));
}

TEST(HfTrainerEmit, NamesEveryOptimizer) {
  const std::pair<OptimizerKind, const char*> cases[] = {
      {OptimizerKind::adamw, "adamw_torch_fused"},
      {OptimizerKind::adam8bit, "adamw_bnb_8bit"},
      {OptimizerKind::paged_adam8bit, "paged_adamw_8bit"},
      {OptimizerKind::adafactor, "adafactor"},
      {OptimizerKind::lion, "lion_32bit"},
      {OptimizerKind::sgd, "sgd"}};
  for (const auto& [kind, name] : cases) {
    auto asked = request();
    asked.plan.candidate.zero = 0;
    asked.plan.problem.workload.optimizer = kind;
    EXPECT_EQ(yaml(emit(asked))["optim"].as<std::string>(), name);
  }
  auto asked = request();
  asked.plan.problem.workload.optimizer = OptimizerKind::adam8bit;
  EXPECT_EQ(yaml(emit(asked))["optim"].as<std::string>(), "adamw_torch_8bit")
      << "bitsandbytes' does not step sharded tensors";
}

TEST(HfTrainerEmit, CutsAProbe) {
  auto asked = request();
  asked.probe = true;
  asked.steps = 6;
  const auto config = emit(asked);
  EXPECT_EQ(yaml(config)["max_steps"].as<int>(), 6);
  EXPECT_EQ(yaml(config)["logging_steps"].as<int>(), 1);
  EXPECT_EQ(yaml(config)["save_strategy"].as<std::string>(), "no");
  EXPECT_NE(body(config).find("save_strategy: \"no\""), std::string::npos)
      << "which YAML 1.1 would take for false";
  EXPECT_FALSE(yaml(emit(request()))["max_steps"]);
}

TEST(HfTrainerEmit, RunsOnCpuRanks) {
  auto asked = request();
  asked.plan.problem.cluster.device.kind = DeviceKind::cpu;
  asked.plan.candidate.zero = 0;
  EXPECT_EQ(given(emit(asked), "--ddp_backend"), "gloo");
  EXPECT_TRUE(yaml(emit(asked))["use_cpu"].as<bool>());
  asked.plan.candidate.knobs = {{"engine", "deepspeed"}};
  EXPECT_EQ(emit(asked).environment.at("DS_ACCELERATOR"), "cpu");
}

TEST(HfTrainerEmit, NoNameBecomesAKey) {
  for (const std::string& text : testing::hostile_texts()) {
    auto asked = request();
    asked.plan.evidence.study = asked.plan.problem.model.name = text;
    EXPECT_EQ(body(emit(asked)), body(emit(request()))) << text;
    EXPECT_EQ(yaml(emit(asked)).size(), yaml(emit(request())).size()) << text;
    asked.out = text;
    asked.plan.candidate.knobs = {{"engine", "deepspeed"}};
    const auto config = emit(asked);
    EXPECT_EQ(yaml(config)["deepspeed"].as<std::string>(), given(config, "--deepspeed"));
    EXPECT_NE(given(config, "--deepspeed").find(text + "/ds_config.json"), std::string::npos);
  }
}

TEST(HfTrainerEmit, RefusesWhatTheArgumentsCannotSay) {
  testing::expect_refused(
      emit, request(),
      {{[](Problem&, Candidate& c) { c.tp = 2, c.dp = 4; }, {"tp 2"}},
       {[](Problem&, Candidate& c) { c.cp = 2, c.dp = 4; }, {"cp 2"}},
       {[](Problem&, Candidate& c) { c.pp = 2, c.dp = 4; }, {"pp 2"}},
       {[](Problem&, Candidate& c) { c.hsdp = 2; }, {"hsdp 2"}},
       {[](Problem&, Candidate& c) { c.zero = 1; }, {"zero 1", "engine=deepspeed"}},
       {[](Problem&, Candidate& c) { c.offload.params = true; }, {"offload params"}},
       {[](Problem&, Candidate& c) { c.offload = {.activations = true, .to = OffloadTo::nvme}; },
        {"activations to nvme"}},
       {[](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::lion; },
        {"lion", "engine=deepspeed"}},
       {[](Problem& p, Candidate&) { p.workload.recipe.master.reset(); }, {"fp32"}},
       {[](Problem& p, Candidate&) { p.cluster.device.kind = DeviceKind::cpu; },
        {"accelerators only"}}});
}

}  // namespace
}  // namespace planwright::targets::hf_trainer
