#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "estimator/models.h"
#include "launcher/targets/megatron/emit.h"
#include "launcher/targets/megatron_deepspeed/emit.h"
#include "launcher/targets/nanotron/emit.h"
#include "launcher/targets/torchtitan/emit.h"
#include "tests/support/emit_requests.h"

/// What frameworks that make the model from words are told of shipped models, and what the user is.
namespace planwright::targets {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;
using testing::Emit;
using testing::text_of;
using testing::warns;

constexpr const char* kUntold = "these files cannot say of the model";

EmitRequest request(const char* target, const char* version, const char* model) {
  Candidate candidate = testing::sharded_candidate();
  candidate.zero = 1;
  EmitRequest asked = testing::emit_request(target, version, candidate);
  asked.plan.problem.workload.seq = 1024;
  asked.plan.problem.model = estimator::find_model(model, "", "model");
  return asked;
}

struct Told {
  const char* model;
  std::vector<std::string> words;   ///< of the command, together
  std::vector<std::string> absent;  ///< options
  std::vector<std::string> untold;  ///< in the warning; none: there is none
};

std::string line_of(const LaunchConfig& config) {
  std::string line = " ";
  for (const std::string& word : config.command) line += word + " ";
  return line;
}

void expect_told(const Emit& emit, const char* target, const char* version, const Told& each) {
  SCOPED_TRACE(std::string(target) + " " + version + " " + each.model);
  const LaunchConfig config = emit(request(target, version, each.model));
  const std::string line = line_of(config);
  for (const std::string& words : each.words) {
    EXPECT_NE(line.find(" " + words + " "), std::string::npos) << words << "\n" << line;
  }
  for (const std::string& option : each.absent) {
    EXPECT_EQ(line.find(" " + option + " "), std::string::npos) << option;
  }
  EXPECT_EQ(warns(config, kUntold), !each.untold.empty());
  for (const std::string& words : each.untold) EXPECT_TRUE(warns(config, kUntold, words)) << words;
}

TEST(ToldModels, MegatronHasArgumentsOrAWarning) {
  const Told cases[] = {
      {"llama-2-7b", {"--rotary-base 10000"}, {"--use-rope-scaling"}, {}},
      {"llama-3-8b", {"--rotary-base 500000"}, {"--use-rope-scaling"}, {}},
      {"llama-3.1-8b", {"--use-rope-scaling --rope-scaling-factor 8.0"}, {}, {}},
      {"llama-3.2-1b",
       {"--use-rope-scaling --rope-scaling-factor 32.0"},
       {"--untie-embeddings-and-output-weights"},
       {"llama3 (factor 32,", "takes 8, 1, 4 and 8192"}},
      {"qwen2.5-7b", {"--add-qkv-bias"}, {"--qk-layernorm"}, {}},
      {"qwen3-8b", {"--qk-layernorm"}, {"--add-qkv-bias"}, {}},
      {"gpt2", {"--position-embedding-type learned_absolute"}, {"--swiglu"}, {}},
      {"phi-3.5-mini", {}, {"--use-rope-scaling"}, {"rope_scaling longrope"}},
      {"granite-3.3-8b", {}, {}, {"embedding_multiplier = 12.0", "logits_scaling = 16.0"}},
      {"mixtral-8x7b",
       {"--moe-router-topk 2"},
       {"--moe-router-pre-softmax", "--moe-router-score-function"},
       {}},
      {"qwen3-30b-a3b", {"--moe-router-topk 8"}, {"--moe-router-pre-softmax"}, {}},
      {"deepseek-v2-lite",
       {"--moe-router-pre-softmax", "--mscale 0.707 --mscale-all-dim 0.707"},
       {"--moe-router-num-groups", "--moe-router-topk-scaling-factor"},
       {}},
      {"deepseek-v2",
       {"--moe-router-num-groups 8 --moe-router-group-topk 3",
        "--moe-router-topk-scaling-factor 16.0"},
       {},
       {"scoring_func softmax", "n_group 8, topk_group 3"}},
      {"deepseek-v3",
       {"--rope-type yarn --rotary-scaling-factor 40.0 --mscale 1.0 --mscale-all-dim 1.0",
        "--moe-router-score-function sigmoid --moe-router-enable-expert-bias",
        "--moe-router-topk-scaling-factor 2.5",
        "--moe-router-num-groups 8 --moe-router-group-topk 4"},
       {"--moe-router-pre-softmax"},
       {}},
      {"kimi-k2", {"--rotary-scaling-factor 32.0"}, {}, {"beta_fast 1,"}},
  };
  for (const char* version : {"0.14.0", "0.19.2"}) {
    for (const Told& each : cases) expect_told(megatron::emit, "megatron", version, each);
  }
}

TEST(ToldModels, MegatronRefusesWhatItHasNoWordsForAtAll) {
  for (const char* model : {"gemma-2-2b", "gpt-oss-20b", "qwen1.5-moe-a2.7b"}) {
    EXPECT_NE(testing::refusal(megatron::emit, request("megatron", "0.19.2", model)), "") << model;
  }
}

TEST(ToldModels, MegatronsBalanceOfExpertsIsTraining) {
  EmitRequest asked = request("megatron", "0.19.2", "mixtral-8x7b");
  EXPECT_TRUE(warns(megatron::emit(asked), "--moe-aux-loss-coeff"));
  asked.user.words = {"--moe-aux-loss-coeff=0.02"};
  EXPECT_FALSE(warns(megatron::emit(asked), "--moe-aux-loss-coeff"));
}

/// Gated GELU, say, would be SwiGLU without a word.
TEST(ToldModels, MegatronDeepspeedHasArgumentsOrAWarning) {
  const char* const theta = "--rotary-position-embeddings-theta";
  const Told cases[] = {
      {"gpt2", {}, {theta}, {}},
      {"llama-2-7b", {std::string(theta) + " 10000"}, {}, {}},
      {"llama-3.1-8b", {std::string(theta) + " 500000"}, {}, {"rope_scaling llama3 (factor 8"}},
      {"qwen2.5-7b", {}, {}, {"biases of some linear layers"}},
      {"mixtral-8x7b", {}, {}, {"experts"}},
      {"gemma-2-2b", {}, {}, {"capped logits", "gelu_tanh of gated", "sliding_window 4096"}},
  };
  for (const Told& each : cases) {
    expect_told(megatron_deepspeed::emit, "megatron-deepspeed", "0.5.10", each);
  }
}

TEST(ToldModels, NanotronsLlamaStretchesNoPositions) {
  expect_told(nanotron::emit, "nanotron", "0.4", {"llama-2-7b", {}, {}, {}});
  expect_told(nanotron::emit, "nanotron", "0.4",
              {"llama-3.1-8b", {}, {}, {"rope_scaling llama3 (factor 8"}});
}

LaunchConfig titan(const char* version, const char* model) {
  EmitRequest asked = request("torchtitan", version, model);
  asked.plan.candidate.zero = 3;
  return torchtitan::emit(asked);
}

/// llama3's positions are those of Llama 3.1 unless an argument says otherwise.
TEST(ToldModels, TorchtitanRegistersWhatItsFlavorsDiffer) {
  for (const char* model : {"llama-3-8b", "llama-2-7b"}) {
    const LaunchConfig config = titan("0.2.2", model);
    const std::string module = text_of(config, "planwright_model.py");
    EXPECT_NE(module.find("scaling_factor=1,"), std::string::npos) << module;
    EXPECT_NE(module.find("import RoPEScalingArgs"), std::string::npos) << module;
    EXPECT_FALSE(warns(config, kUntold)) << model;
  }
  EXPECT_NE(text_of(titan("0.2.2", "llama-3.1-8b"), "torchtitan.toml").find("\"8B\""),
            std::string::npos);
  EXPECT_NE(text_of(titan("0.3.0", "llama-3-8b"), "planwright_config.py")
                .find("torchtitan.models.llama3.config_registry import llama3_8b"),
            std::string::npos);
}

TEST(ToldModels, TorchtitanWarnsOfWhatItsFlavorsDiffer) {
  const struct {
    const char* version;
    const char* model;
    std::vector<std::string> untold;
  } cases[] = {{"0.2.2", "llama-3.1-8b", {}},
               {"0.2.2", "qwen3-8b", {}},
               {"0.3.0", "llama-3.1-8b", {}},
               {"0.3.0", "llama-3-8b", {"it has no rope_scaling"}},
               {"0.2.2", "qwen3-30b-a3b", {}},
               {"0.2.2", "qwen3-235b-a22b", {"rope_theta 1000000"}},
               {"0.2.2", "deepseek-v3", {"rms_norm_eps 1e-06"}}};
  for (const auto& each : cases) {
    const LaunchConfig config = titan(each.version, each.model);
    EXPECT_EQ(warns(config, kUntold), !each.untold.empty()) << each.model;
    for (const std::string& words : each.untold) EXPECT_TRUE(warns(config, kUntold, words));
  }
}

TEST(ToldModels, WeightsAreDrawnAsTheModelSays) {
  const auto drawn = [](const char* target, const char* version, const Emit& emit) {
    EmitRequest asked = request(target, version, "llama-2-7b");
    asked.plan.problem.model.init_std = 0.006;
    if (asked.plan.problem.target == "torchtitan") asked.plan.candidate.zero = 3;
    return emit(asked);
  };
  for (const char* version : {"0.14.0", "0.19.2"}) {
    EXPECT_NE(line_of(drawn("megatron", version, megatron::emit)).find(" --init-method-std 0.006 "),
              std::string::npos);
  }
  EXPECT_NE(text_of(drawn("nanotron", "0.4", nanotron::emit), "nanotron.yaml").find("std: 0.006"),
            std::string::npos);
  EXPECT_TRUE(
      warns(drawn("torchtitan", "0.2.2", torchtitan::emit), kUntold, "initializer_range 0.006"));
}

TEST(ToldModels, TorchtitanHasNoDropout) {
  EmitRequest asked = request("torchtitan", "0.2.2", "llama-3.1-8b");
  asked.plan.candidate.zero = 3;
  asked.plan.problem.workload.hidden_dropout = 0.1;
  EXPECT_TRUE(warns(torchtitan::emit(asked), kUntold, "dropout 0.1 of the hidden state"));
}

/// Where weights are to be found, in the words of each target.
struct Weights {
  const char* target;
  const char* version;
  Emit emit;
  const char* setting;
  std::function<std::string(const LaunchConfig&)> text;
};

std::string options(const LaunchConfig& config) { return line_of(config); }
std::string toml(const LaunchConfig& config) { return text_of(config, "torchtitan.toml"); }
std::string python(const LaunchConfig& config) { return text_of(config, "planwright_config.py"); }
std::string yaml(const LaunchConfig& config) { return text_of(config, "nanotron.yaml"); }

TEST(ToldModels, ATunedModelBeginsWithWeights) {
  const Weights cases[] = {
      {"megatron", "0.19.2", megatron::emit, "--pretrained-checkpoint YOUR_CHECKPOINT_DIR",
       options},
      {"megatron", "0.14.0", megatron::emit, "--pretrained-checkpoint YOUR_CHECKPOINT_DIR",
       options},
      {"megatron-deepspeed", "0.5.10", megatron_deepspeed::emit,
       "--load YOUR_CHECKPOINT_DIR --finetune", options},
      {"nanotron", "0.4", nanotron::emit, "path: YOUR_CHECKPOINT_DIR", yaml},
      {"torchtitan", "0.2.2", torchtitan::emit,
       "initial_load_path = \"YOUR_CHECKPOINT_DIR\"\ninitial_load_in_hf = true", toml},
      {"torchtitan", "0.3.0", torchtitan::emit,
       "config.checkpoint.initial_load_path = \"/YOUR_CHECKPOINT_DIR\"", python},
  };
  for (const Weights& each : cases) {
    SCOPED_TRACE(each.target);
    EmitRequest asked = request(each.target, each.version, "llama-3.1-8b");
    if (std::string(each.target) == "torchtitan") asked.plan.candidate.zero = 3;
    EXPECT_EQ(each.text(each.emit(asked)).find("YOUR_CHECKPOINT_DIR"), std::string::npos);
    asked.plan.problem.workload.job = Job::finetune;
    const LaunchConfig config = each.emit(asked);
    EXPECT_NE(each.text(config).find(each.setting), std::string::npos) << each.text(config);
    EXPECT_TRUE(warns(config, "the weights that training begins with", "YOUR_CHECKPOINT_DIR"));
    asked.probe = true;
    asked.steps = 3;
    EXPECT_EQ(each.text(each.emit(asked)).find("YOUR_CHECKPOINT_DIR"), std::string::npos)
        << "what a probe trains is any";
  }
}

TEST(ToldModels, WeightsThatTheUserNamesAreTheirs) {
  for (const char* word : {"--load=/mine", "--pretrained-checkpoint=/mine"}) {
    EmitRequest asked = request("megatron", "0.19.2", "llama-3.1-8b");
    asked.plan.problem.workload.job = Job::finetune;
    asked.user.words = {word};
    const LaunchConfig config = megatron::emit(asked);
    EXPECT_EQ(line_of(config).find("YOUR_CHECKPOINT_DIR"), std::string::npos) << word;
    EXPECT_FALSE(warns(config, "YOUR_CHECKPOINT_DIR")) << word;
  }
}

}  // namespace
}  // namespace planwright::targets
