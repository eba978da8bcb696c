#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <sstream>

#include "launcher/targets/torchtitan/emit.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::torchtitan {
namespace {

using testing::has_file;
using testing::text_of;
using testing::warns;

launcher::EmitRequest request(const char* version = "0.2.2") {
  return testing::emit_request("torchtitan", version, testing::sharded_candidate());
}

std::string body(const launcher::LaunchConfig& config) {
  const std::string text = text_of(config, "torchtitan.toml");
  return text.substr(text.find("\n["));
}

toml::table table(const launcher::LaunchConfig& config) {
  std::istringstream stream(text_of(config, "torchtitan.toml"));
  return toml::parse(stream);
}

Candidate staged() {
  Candidate c = testing::sharded_candidate();
  c.dp = 2;
  c.tp = 2;
  c.sp = true;
  c.pp = 2;
  return c;
}

TEST(TorchtitanEmit, WritesEveryDegreeAndType) {
  EXPECT_EQ(body(emit(request())), R"(
[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 1
global_batch_size = 64
seq_len = 4096
max_norm = 1.0
enable_cpu_offload = false
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"

[optimizer]
name = "AdamW"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 8
fsdp_reshard_after_forward = "always"
tensor_parallel_degree = 1
context_parallel_degree = 1
expert_parallel_degree = 1
pipeline_parallel_degree = 1

[activation_checkpoint]
mode = "full"

[compile]
enable = false

[metrics]
log_freq = 10
)");
}

TEST(TorchtitanEmit, TheLocalBatchOfStagesIsAllOfAStepsMicroBatches) {
  auto asked = request();
  asked.plan.candidate = staged();
  asked.plan.candidate.micro_batch = 2;
  const toml::table read = table(emit(asked));
  EXPECT_EQ(read["training"]["local_batch_size"].value<int>(), 32);
  EXPECT_EQ(read["parallelism"]["pipeline_parallel_microbatch_size"].value<int>(), 2);
  EXPECT_EQ(read["parallelism"]["pipeline_parallel_schedule"].value<std::string>(), "1F1B");
}

TEST(TorchtitanEmit, CutsStagesAsThePlanDoes) {
  auto asked = request();
  asked.plan.candidate = staged();
  Candidate& c = asked.plan.candidate;
  c.stages = {StagePlan{20, c.recompute, {}}, StagePlan{12, c.recompute, {}}};
  const toml::table uneven = table(emit(asked));
  const toml::array& two = *uneven["parallelism"]["module_fqns_per_model_part"].as_array();
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].as_array()->size(), 21U) << "an embedding and 20 blocks";
  EXPECT_EQ(two[0].as_array()->get(0)->value<std::string>(), "tok_embeddings");
  EXPECT_EQ(two[1].as_array()->get(0)->value<std::string>(), "layers.20");
  EXPECT_EQ(two[1].as_array()->back().value<std::string>(), "output");

  c.stages.clear();
  c.vpp = 4;
  c.schedule = Schedule::interleaved;
  const toml::table looped = table(emit(asked));
  EXPECT_EQ(looped["parallelism"]["module_fqns_per_model_part"].as_array()->size(), 8U);
  EXPECT_EQ(looped["parallelism"]["pipeline_parallel_schedule"].value<std::string>(),
            "Interleaved1F1B");
}

/// DeepSeek-V2-Lite's sizes, as torchtitan has them by the name 16B.
ModelSpec with_experts() {
  BlockSpec dense{.heads = 16,
                  .kv_heads = 16,
                  .head_dim = 192,
                  .ffn = 10944,
                  .mlp = MlpKind::gated,
                  .activation = Activation::silu,
                  .norm = NormKind::rms_norm};
  dense.latent =
      LatentSpec{.kv_rank = 512, .q_rank = 0, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  BlockSpec sparse = dense;
  sparse.ffn = 0;
  sparse.moe = MoeSpec{.experts = 64, .top_k = 6, .ffn = 1408, .shared_ffn = 2816};
  ModelSpec m;
  m.hidden = 2048;
  m.vocab = 102400;
  m.runs = {{1, dense}, {26, sparse}};
  return m;
}

TEST(TorchtitanEmit, SpreadsExperts) {
  auto asked = request();
  asked.plan.problem.model = with_experts();
  asked.plan.candidate.ep = 8;
  const toml::table read = table(emit(asked));
  EXPECT_EQ(read["model"]["name"].value<std::string>(), "deepseek_v3");
  EXPECT_EQ(read["model"]["flavor"].value<std::string>(), "16B");
  EXPECT_EQ(read["parallelism"]["expert_parallel_degree"].value<int>(), 8);
  EXPECT_EQ(read["parallelism"]["expert_tensor_parallel_degree"].value<int>(), 1);
  asked.plan.problem.model.vocab = 129280;
  const std::string module = text_of(emit(asked), "planwright_model.py");
  EXPECT_NE(module.find("model_args[\"16B\"], vocab_size=129280)"), std::string::npos) << module;
  testing::expect_refused(emit, asked,
                          {{[](Problem& p, Candidate&) { p.model.runs[1].block.moe->top_k = 4; },
                            {"deepseek_v3", "sizes"}}});
}

TEST(TorchtitanEmit, NamesEachKindOfRecompute) {
  const std::pair<Recompute, std::pair<const char*, const char*>> cases[] = {
      {{RecomputeKind::none, 0, {}}, {"none", ""}},
      {{RecomputeKind::op, 0, {}}, {"selective", "op"}},
      {{RecomputeKind::alternate, 2, {}}, {"selective", "2"}},
      {{RecomputeKind::full, 0, {}}, {"full", ""}}};
  for (const auto& [recompute, words] : cases) {
    auto asked = request();
    asked.plan.candidate.recompute = recompute;
    const toml::table read = table(emit(asked));
    const auto section = read["activation_checkpoint"];
    EXPECT_EQ(section["mode"].value<std::string>(), words.first);
    EXPECT_EQ(section["selective_ac_option"].value_or<std::string>(""), words.second);
    EXPECT_FALSE(warns(emit(asked), "recompute"));
  }
  auto asked = request();
  asked.plan.candidate.recompute = {RecomputeKind::alternate, 3, {}};
  EXPECT_TRUE(warns(emit(asked), "recompute alternate:3", "one block fewer"));
}

TEST(TorchtitanEmit, FollowsStageAndReplicas) {
  auto asked = request();
  asked.plan.candidate.zero = 2;
  asked.plan.candidate.hsdp = 2;
  toml::table read = table(emit(asked));
  EXPECT_EQ(read["parallelism"]["data_parallel_replicate_degree"].value<int>(), 2);
  EXPECT_EQ(read["parallelism"]["data_parallel_shard_degree"].value<int>(), 4);
  EXPECT_EQ(read["parallelism"]["fsdp_reshard_after_forward"].value<std::string>(), "never");

  asked = request();
  asked.plan.candidate.zero = 0;
  read = table(emit(asked));
  EXPECT_EQ(read["parallelism"]["data_parallel_replicate_degree"].value<int>(), 8);
  EXPECT_EQ(read["parallelism"]["data_parallel_shard_degree"].value<int>(), 1);
}

TEST(TorchtitanEmit, RegistersAModelThatIsNotShipped) {
  auto asked = request();
  asked.plan.problem.model.runs[0].count = 30;
  const auto config = emit(asked);
  const toml::table read = table(config);
  EXPECT_EQ(read["model"]["name"].value<std::string>(), "planwright_llama3");
  EXPECT_EQ(read["experimental"]["custom_import"].value<std::string>(), "planwright_model");
  const std::string module = text_of(config, "planwright_model.py");
  EXPECT_NE(module.find("n_layers=30,"), std::string::npos) << module;
  EXPECT_NE(module.find("multiple_of=14336,"), std::string::npos);
  EXPECT_EQ(config.environment.at("PYTHONPATH"), "launch/");
  EXPECT_FALSE(has_file(emit(request()), "planwright_model.py"));

  BlockSpec& block = asked.plan.problem.model.runs[0].block;
  block.qk_norm = true;
  EXPECT_NE(text_of(emit(asked), "planwright_model.py").find("Qwen3ModelArgs"), std::string::npos);
}

/// Of the two components both are compiled where none is named.
TEST(TorchtitanEmit, WritesWhatIsCompiled) {
  const auto section = [](const char* value) {
    auto asked = request("0.2.2");
    asked.plan.candidate.knobs = {{"compile", value}};
    return *table(emit(asked))["compile"].as_table();
  };
  for (const char* value : {"loss", "blocks", "on"}) {
    EXPECT_EQ(section(value)["enable"].value<bool>(), true) << value;
  }
  EXPECT_EQ(section("loss")["components"][0].value<std::string>(), "loss");
  EXPECT_EQ(section("blocks")["components"][0].value<std::string>(), "model");
  EXPECT_FALSE(section("on").contains("components"));
  auto newer = request("0.3.0");
  newer.plan.candidate.knobs = {{"compile", "on"}};
  EXPECT_NE(testing::refusal(emit, newer).find("knob compile"), std::string::npos);
}

TEST(TorchtitanEmit, WritesPythonForVersionThree) {
  auto asked = request("0.3.0");
  asked.plan.candidate = staged();
  asked.plan.candidate.sp = false;
  const auto config = emit(asked);
  const std::string text = text_of(config, "planwright_config.py");
  for (const char* line :
       {"from torchtitan.models.llama3.config_registry import llama3_8b\n", "def planned():\n",
        "        disable_cuda_graphs=True,\n", "        enable_sequence_parallel=False,\n",
        "    config.activation_checkpoint = FullAC.Config()\n", "\"norm\", \"lm_head\"]],\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_FALSE(has_file(config, "torchtitan.toml"));
  const auto& words = config.command;
  EXPECT_EQ(std::vector(words.begin() + 3, words.end()),
            (std::vector<std::string>{"-m", "torchtitan.train", "--module", "planwright_config",
                                      "--config", "planned"}));
}

TEST(TorchtitanEmit, CutsAProbe) {
  auto asked = request();
  asked.probe = true;
  asked.steps = 4;
  const toml::table read = table(emit(asked));
  EXPECT_EQ(read["training"]["steps"].value<int>(), 4);
  EXPECT_EQ(read["metrics"]["log_freq"].value<int>(), 1);
  EXPECT_EQ(read["checkpoint"]["enable"].value<bool>(), false);
}

TEST(TorchtitanEmit, NoNameBecomesAKey) {
  for (const std::string& text : testing::hostile_texts()) {
    auto asked = request();
    asked.plan.evidence.study = asked.plan.problem.model.name = text;
    EXPECT_EQ(body(emit(asked)), body(emit(request()))) << text;
    EXPECT_EQ(table(emit(asked)).size(), table(emit(request())).size()) << text;
  }
}

launcher::EmitRequest in_8_bits(const char* version = "0.2.2") {
  auto asked = request(version);
  asked.plan.problem.workload.precision = Precision::fp8;
  asked.plan.problem.cluster.device.fp8 = FlopsPerSecond{1979e12};
  return asked;
}

TEST(TorchtitanEmit, ConvertsLinearLayersTo8Bits) {
  auto asked = in_8_bits();
  const toml::table plain = table(emit(asked));
  EXPECT_EQ(plain["model"]["converters"][0].value<std::string>(), "quantize.linear.float8");
  EXPECT_EQ(plain["training"]["mixed_precision_param"].value<std::string>(), "bfloat16");
  EXPECT_EQ(plain["compile"]["enable"].value<bool>(), true);
  const auto float8 = plain["quantize"]["linear"]["float8"];
  EXPECT_EQ(float8["filter_fqns"][0].value<std::string>(), "output");
  EXPECT_FALSE(float8["recipe_name"]);
  asked.plan.candidate.knobs = {{"float8_recipe", "rowwise"}};
  const toml::table rows = table(emit(asked));
  EXPECT_EQ(rows["quantize"]["linear"]["float8"]["recipe_name"].value<std::string>(), "rowwise");
  testing::expect_refused(
      emit, in_8_bits(),
      {{[](Problem& p, Candidate&) { p.cluster.device.fp8.reset(); }, {"no products in 8 bits"}},
       {[](Problem& p, Candidate&) { p.model.runs[0].block.ffn = 14344; }, {"multiples of 16"}}});
  const std::string newer = testing::refusal(emit, in_8_bits("0.3.0"));
  EXPECT_NE(newer.find("precision fp8; use target version 0.2.2"), std::string::npos) << newer;
}

TEST(TorchtitanEmit, RefusesWhatTorchtitanCannotSay) {
  testing::expect_refused(
      emit, request(),
      {{[](Problem&, Candidate& c) { c.zero = 1; }, {"zero 1"}},
       {[](Problem&, Candidate& c) { c.zero = 0, c.tp = 2, c.sp = true, c.dp = 4; },
        {"zero 0", "sharded data ranks"}},
       {[](Problem&, Candidate& c) { c.tp = 2, c.dp = 4; }, {"sp off at tp 2"}},
       {[](Problem&, Candidate& c) { c.tp = 8, c.sp = true, c.dp = 1; }, {"tp 8", "FSDP"}},
       {[](Problem&, Candidate& c) { c.pp = 2, c.dp = 4, c.vpp = 2; }, {"vpp 2", "interleaved"}},
       {[](Problem&, Candidate& c) { c.pp = 2, c.dp = 4, c.schedule = Schedule::zero_bubble; },
        {"schedule zb"}},
       {[](Problem&, Candidate& c) {
          c.pp = 2, c.dp = 4, c.vpp = 2, c.zero = 3, c.schedule = Schedule::zero_bubble;
        },
        {"no gradient", "--zero 2"}},
       {[](Problem&, Candidate& c) { c.ep = 2; }, {"ep 2", "experts"}},
       {[](Problem&, Candidate& c) { c.etp = 2; }, {"etp 2"}},
       {[](Problem& p, Candidate&) { p.workload.seq = 4095; }, {"4095"}},
       {[](Problem& p, Candidate&) { p.model.runs[0].block.qkv_bias = true; }, {"model folder"}},
       {[](Problem& p, Candidate&) { p.workload.job = Job::lora; }, {"adapters"}},
       {[](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::lion; }, {"lion"}},
       {[](Problem& p, Candidate&) { p.workload.precision = Precision::fp16; }, {"precision fp16"}},
       {[](Problem&, Candidate& c) { c.offload = {.optimizer = true}; }, {"offload optimizer"}}});
  testing::expect_refused(
      emit, request("0.3.0"),
      {{[](Problem&, Candidate& c) {
          c.recompute = {RecomputeKind::alternate, 2, {}};
        },
        {"alternate:2", "0.2.2"}},
       {[](Problem& p, Candidate&) { p.model.runs[0].count = 30; }, {"configuration function"}}});
}

}  // namespace
}  // namespace planwright::targets::torchtitan
