#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/targets/pytorch/emit.h"
#include "launcher/targets/pytorch/rules.h"
#include "launcher/targets/pytorch/traits.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::pytorch {
namespace {

using testing::json_of;
using testing::text_of;

/// The file without its comments.
std::string yaml_of(const launcher::LaunchConfig& config) {
  const std::string text = text_of(config, "litgpt_config.yaml");
  std::string plain;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin) + 1;
    if (text[begin] != '#') plain += text.substr(begin, end - begin);
    begin = end;
  }
  return plain;
}

/// bf16-true on one device, with adapters of queries and values.
launcher::EmitRequest lora_request() {
  Candidate c;
  c.micro_batch = 2;
  auto request = testing::emit_request("pytorch", "2.11.0", c);
  Problem& p = request.plan.problem;
  p.cluster.per_node = 1;
  p.workload.job = Job::lora;
  p.workload.recipe = traits().recipe(Precision::bf16).value();
  p.workload.global_batch = 16;
  p.model.lora = {8, {LoraTarget::q_proj, LoraTarget::v_proj}};
  return request;
}

launcher::EmitRequest by_litgpt(launcher::EmitRequest request) {
  request.plan.candidate.knobs = {{"loop", "litgpt"}};
  return request;
}

launcher::EmitRequest on_eight(launcher::EmitRequest request) {
  request.plan.problem.cluster.per_node = 8;
  request.plan.candidate.dp = 8;
  return request;
}

TEST(PytorchEmit, TellsAScriptItsSettings) {
  const auto config = emit(lora_request());
  EXPECT_EQ(json_of(config, "pytorch_settings.json"), Json::parse(R"({
    "schema": "planwright.pytorch/1", "wrap": "none", "precision": "bf16-true", "quantize": null,
    "lora": {"r": 8, "query": true, "key": false, "value": true, "projection": false, "mlp": false,
             "dropout": 0.05},
    "lm_head_chunk_size": 128, "checkpoint_blocks": false, "micro_batch_size": 2,
    "gradient_accumulation_steps": 8, "sequence_length": 4096,
    "optimizer": "torch.optim.AdamW"})"));
  EXPECT_EQ(config.command, (std::vector<std::string>{
                                "torchrun", "--standalone", "--nproc-per-node=1", "YOUR_SCRIPT.py",
                                "--settings", "launch/pytorch_settings.json"}));
}

TEST(PytorchEmit, WrapsByTheRanks) {
  auto request = on_eight(lora_request());
  EXPECT_EQ(json_of(emit(request), "pytorch_settings.json").at("wrap"), "ddp");
  request.plan.candidate.zero = 3;
  EXPECT_EQ(json_of(emit(request), "pytorch_settings.json").at("wrap"), "fsdp");
}

/// Lightning Fabric's words.
TEST(PytorchEmit, SaysThePrecision) {
  using enum DType;
  const std::pair<PrecisionRecipe, const char*> cases[] = {
      {{bf16, bf16, bf16, std::nullopt, bf16, {}}, "bf16-true"},
      {{fp32, bf16, fp32, std::nullopt, fp32, {}}, "bf16-mixed"},
      {{fp32, fp16, fp32, std::nullopt, fp32, {}}, "16-mixed"},
      {{fp16, fp16, fp16, std::nullopt, fp16, {}}, "16-true"},
      {{fp32, fp32, fp32, std::nullopt, fp32, {}}, "32-true"}};
  for (const auto& [recipe, word] : cases) {
    auto request = lora_request();
    request.plan.problem.workload.recipe = recipe;
    EXPECT_EQ(json_of(emit(request), "pytorch_settings.json").at("precision"), word);
  }
}

TEST(PytorchEmit, WritesLitgptsConfiguration) {
  auto request = by_litgpt(lora_request());
  request.plan.problem.workload.job = Job::qlora;
  request.plan.problem.workload.serving.weights = find_weight_format("nf4", "", "");
  const auto config = emit(request);
  EXPECT_EQ(yaml_of(config), R"(precision: "bf16-true"
devices: 1
num_nodes: 1
quantize: "bnb.nf4"
lora_r: 8
lora_dropout: 0.05
lora_query: true
lora_key: false
lora_value: true
lora_projection: false
lora_mlp: false
lora_head: false
train:
  global_batch_size: 16
  micro_batch_size: 2
  max_seq_length: 4096
  log_interval: 1
optimizer: AdamW
)");
  EXPECT_EQ(config.command,
            (std::vector<std::string>{"litgpt", "finetune_lora", "YOUR_CHECKPOINT_DIR", "--config",
                                      "launch/litgpt_config.yaml"}));
  EXPECT_TRUE(testing::warns(config, "YOUR_CHECKPOINT_DIR"));
}

TEST(PytorchEmit, NamesLitgptsCommandByTheJob) {
  auto request = by_litgpt(lora_request());
  request.plan.problem.model.lora = {};
  request.plan.problem.workload.job = Job::finetune;
  EXPECT_EQ(emit(request).command[1], "finetune_full");
  request.plan.problem.workload.job = Job::pretrain;
  request.user.words = {"tiny-llama-1.1b", "--data", "TinyLlama"};
  request.probe = true;
  request.steps = 3;
  const auto config = emit(request);
  EXPECT_EQ(config.command,
            (std::vector<std::string>{"litgpt", "pretrain", "tiny-llama-1.1b", "--data",
                                      "TinyLlama", "--config", "launch/litgpt_config.yaml"}));
  EXPECT_NE(yaml_of(config).find("  max_steps: 3\n"), std::string::npos);
}

TEST(PytorchEmit, RefusesWhatAPlainLoopCannotBeTold) {
  testing::expect_refused(
      emit, on_eight(lora_request()),
      {{[](Problem&, Candidate& c) { c.zero = 2; }, {"zero 2", "--zero 0 or 3"}},
       {[](Problem&, Candidate& c) { c.tp = 2, c.dp = 4; }, {"tp 2"}},
       {[](Problem&, Candidate& c) { c.pp = 2, c.dp = 4; }, {"pp 2"}},
       {[](Problem&, Candidate& c) { c.offload.optimizer = true; }, {"offload optimizer"}},
       {[](Problem&, Candidate& c) { c.attention = AttentionKernel::eager; }, {"eager", "flash"}},
       {[](Problem&, Candidate& c) { c.loss = LossKernel::chunked; }, {"cross_entropy"}},
       {[](Problem& p, Candidate&) { p.workload.job = Job::qlora; }, {"one device", "dp is 8"}},
       {[](Problem&, Candidate& c) {
          c.knobs = {{"loop", "mine"}};
        },
        {"knob"}}});
}

TEST(PytorchEmit, RefusesWhatLitgptsCommandsDecide) {
  auto request = on_eight(by_litgpt(lora_request()));
  request.plan.candidate.zero = 3;
  request.plan.candidate.recompute.kind = RecomputeKind::full;
  testing::expect_refused(
      emit, request,
      {{[](Problem&, Candidate& c) { c.zero = 0; }, {"zero 0", "--zero 3"}},
       {[](Problem&, Candidate& c) { c.recompute = {}; }, {"recompute none", "loop=script"}},
       {[](Problem& p, Candidate&) { p.model.lora.targets.push_back(LoraTarget::down_proj); },
        {"--lora_mlp", "--lora-targets"}},
       {[](Problem& p, Candidate& c) {
          c.recompute = {};
          p.model.lora = {};
          p.workload.job = Job::pretrain;
          p.workload.recipe.compute = DType::fp16;
        },
        {"bf16", "pretrain"}}});
}

TEST(PytorchEmit, NoNameChangesTheFiles) {
  for (const std::string& text : testing::hostile_texts()) {
    auto request = by_litgpt(lora_request());
    request.plan.evidence.study = request.plan.problem.model.name = text;
    EXPECT_EQ(yaml_of(emit(request)), yaml_of(emit(by_litgpt(lora_request()))));
  }
}

}  // namespace
}  // namespace planwright::targets::pytorch
