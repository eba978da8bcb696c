#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "estimator/spec/text_file.h"
#include "launcher/targets/megatron/emit.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::megatron {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;
using testing::text_of;
using testing::warns;

constexpr const char* kVersions[] = {"0.14.0", "0.19.2"};

/// dp 8, zero 1, micro-batch 1, full recompute.
EmitRequest request(const char* version = "0.14.0") {
  Candidate candidate = testing::sharded_candidate();
  candidate.zero = 1;
  return testing::emit_request("megatron", version, candidate);
}

/// tp 2 with its sequences, pp 2, dp 2.
EmitRequest staged(const char* version = "0.14.0") {
  EmitRequest asked = request(version);
  Candidate& c = asked.plan.candidate;
  c.dp = c.tp = c.pp = 2;
  c.sp = true;
  return asked;
}

/// A dense layer and 15 of 8 experts.
void add_experts(Problem& p) {
  BlockSpec sparse = p.model.runs[0].block;
  sparse.ffn = 0;
  sparse.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 1024, .shared_ffn = 2048};
  p.model.runs[0].count = 1;
  p.model.runs.push_back({15, sparse});
}

void in_8_bits(Problem& p) {
  p.workload.precision = Precision::fp8;
  p.cluster.device.fp8 = FlopsPerSecond{1979e12};
}

/// The command behind the script.
std::vector<std::string> arguments(const LaunchConfig& config) {
  const auto script = std::find_if(config.command.begin(), config.command.end(),
                                   [](const auto& word) { return word.ends_with(".py"); });
  return {script + 1, config.command.end()};
}

std::string line_of(const LaunchConfig& config) {
  std::string line;
  for (const std::string& word : arguments(config)) line += word + " ";
  return line;
}

bool has(const LaunchConfig& config, const std::string& words) {
  return (" " + line_of(config)).find(" " + words + " ") != std::string::npos;
}

std::string body(const LaunchConfig& config) {
  const std::string text = text_of(config, "megatron_args.yaml");
  return text.substr(text.find("num-layers"));
}

TEST(MegatronEmit, WritesShapePlanAndRun) {
  EXPECT_EQ(body(emit(staged())), R"(num-layers: 32
hidden-size: 4096
ffn-hidden-size: 14336
num-attention-heads: 32
kv-channels: 128
group-query-attention: true
num-query-groups: 8
position-embedding-type: rope
max-position-embeddings: 131072
rotary-base: 500000
use-rope-scaling: true
rope-scaling-factor: 8.0
normalization: RMSNorm
swiglu: true
disable-bias-linear: true
norm-epsilon: 1.0e-05
untie-embeddings-and-output-weights: true
make-vocab-size-divisible-by: 128
hidden-dropout: 0.0
attention-dropout: 0.0
tensor-model-parallel-size: 2
sequence-parallel: true
pipeline-model-parallel-size: 2
context-parallel-size: 1
use-distributed-optimizer: true
overlap-grad-reduce: true
overlap-param-gather: true
micro-batch-size: 1
global-batch-size: 64
seq-length: 4096
bf16: true
recompute-granularity: full
recompute-method: uniform
recompute-num-layers: 1
optimizer: adam
transformer-impl: transformer_engine
attention-backend: fused
mock-data: true
no-create-attention-mask-in-dataloader: true
tokenizer-type: NullTokenizer
vocab-size: 128255
train-iters: 10
lr: 0.0001
)");
}

TEST(MegatronEmit, TheCommandSaysWhatTheFileSays) {
  const LaunchConfig config = emit(staged());
  const auto front = std::vector(config.command.begin(), config.command.begin() + 4);
  EXPECT_EQ(front, (std::vector<std::string>{"torchrun", "--standalone", "--nproc-per-node=8",
                                             "pretrain_gpt.py"}));
  std::size_t options = 0;
  for (const auto& each : YAML::Load(body(config))) {
    const auto name = "--" + each.first.as<std::string>();
    const auto value = each.second.as<std::string>();
    ++options;
    if (value == "1.0e-05") continue;  // -1e-05 in the command
    EXPECT_TRUE(has(config, value == "true" ? name : name + " " + value)) << name;
  }
  EXPECT_TRUE(has(config, "--norm-epsilon 1e-05"));
  const auto words = arguments(config);
  EXPECT_EQ(options, std::count_if(words.begin(), words.end(),
                                   [](const auto& word) { return word.starts_with("--"); }));
}

TEST(MegatronEmit, NamesEachKindOfRecompute) {
  const std::pair<const char*, const char*> cases[] = {
      {"full", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"},
      {"chunk:4",
       "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4"},
      {"first:3", "--recompute-granularity full --recompute-method block --recompute-num-layers 3"},
      {"selective", "--recompute-granularity selective --recompute-modules core_attn"},
      {"selective:layernorm+mlp",
       "--recompute-granularity selective --recompute-modules layernorm mlp"}};
  for (const auto& [word, words] : cases) {
    EmitRequest asked = request();
    asked.plan.candidate.recompute = parse_recompute(word, "", "");
    EXPECT_TRUE(has(emit(asked), words)) << line_of(emit(asked));
  }
  EmitRequest asked = request();
  asked.plan.candidate.recompute = {};
  EXPECT_EQ(line_of(emit(asked)).find("recompute"), std::string::npos);
}

TEST(MegatronEmit, CutsStagesAsThePlanDoes) {
  EmitRequest asked = staged();
  Candidate& c = asked.plan.candidate;
  c.stages = {StagePlan{20, c.recompute, {}}, StagePlan{12, c.recompute, {}}};
  EXPECT_TRUE(has(emit(asked), "--pipeline-model-parallel-layout Et*20|t*12L"));
  c.stages.clear();
  asked.plan.problem.model.runs[0].count = 31;
  EXPECT_TRUE(has(emit(asked), "--pipeline-model-parallel-layout Et*16|t*15L"));
  asked.plan.problem.model.runs[0].count = 32;
  c.vpp = 4;
  c.schedule = Schedule::interleaved;
  EXPECT_TRUE(has(emit(asked), "--num-virtual-stages-per-pipeline-rank 4"));
}

TEST(MegatronEmit, NamesTypesOptimizerAndKernels) {
  struct Case {
    void (*change)(Problem&, Candidate&);
    std::vector<const char*> has, hasnt;
  };
  const PrecisionRecipe fp16{DType::fp16, DType::fp16, DType::fp16, DType::fp32, DType::fp32, {}};
  static PrecisionRecipe half;
  half = fp16;
  const Case cases[] = {
      {[](Problem& p, Candidate&) { p.workload.recipe.gradient = DType::bf16; },
       {"--bf16", "--grad-reduce-in-bf16"},
       {"--fp16"}},
      {[](Problem& p, Candidate&) {
         p.workload.recipe = half;
         p.workload.precision = Precision::fp16;
       },
       {"--fp16"},
       {"--bf16", "--accumulate-allreduce-grads-in-fp32"}},
      {[](Problem& p, Candidate&) {
         p.workload.recipe = half;
         p.workload.recipe.gradient = DType::fp32;
         p.workload.precision = Precision::fp16;
       },
       {"--fp16", "--accumulate-allreduce-grads-in-fp32"},
       {}},
      {[](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::sgd; },
       {"--optimizer sgd"},
       {}},
      {[](Problem&, Candidate& c) { c.offload.optimizer = true; },
       {"--use-precision-aware-optimizer", "--optimizer-cpu-offload"},
       {"--fine-grained-activation-offloading"}},
      {[](Problem& p, Candidate& c) {
         p.target_version = "0.16.0";
         c.recompute = {};
         c.offload.activations = true;
       },
       {"--fine-grained-activation-offloading", "--offload-modules qkv_linear core_attn attn_proj"},
       {"--optimizer-cpu-offload"}},
      {[](Problem&, Candidate& c) { c.attention = AttentionKernel::eager; },
       {"--attention-backend unfused"},
       {}},
      {[](Problem&, Candidate& c) { c.loss = LossKernel::fused; },
       {"--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl te"},
       {}},
      {[](Problem&, Candidate& c) {
         c.knobs = {{"deterministic_mode", "on"}};
       },
       {"--deterministic-mode", "--attention-backend auto"},
       {"--no-gradient-accumulation-fusion"}},
      {[](Problem&, Candidate& c) {
         c.knobs = {{"gradient_accumulation_fusion", "off"}};
       },
       {"--no-gradient-accumulation-fusion", "--attention-backend fused"},
       {"--deterministic-mode"}},
      {[](Problem&, Candidate& c) { c.zero = 2; },
       {"--use-megatron-fsdp", "--data-parallel-sharding-strategy optim_grads",
        "--ckpt-format fsdp_dtensor", "--no-gradient-accumulation-fusion",
        "--use-distributed-optimizer"},
       {"--megatron-fsdp-main-grads-dtype"}},
      {[](Problem& p, Candidate& c) {
         p.target_version = "0.17.0";
         c.zero = 3;
       },
       {"--data-parallel-sharding-strategy optim_grads_params", "--init-model-with-meta-device",
        "--overlap-param-gather", "--megatron-fsdp-main-grads-dtype fp32"},
       {}},
      {[](Problem&, Candidate& c) { c.zero = 0; },
       {"--overlap-grad-reduce"},
       {"--use-distributed-optimizer", "--overlap-param-gather"}},
      {[](Problem&, Candidate& c) {
         c.knobs = {{"overlap_grad_reduce", "off"}};
       },
       {"--use-distributed-optimizer"},
       {"--overlap-grad-reduce", "--overlap-param-gather"}},
      {[](Problem&, Candidate& c) { c.hsdp = 2; }, {"--num-distributed-optimizer-instances 2"}, {}},
      {[](Problem& p, Candidate&) { in_8_bits(p); },
       {"--bf16", "--fp8-format hybrid", "--fp8-recipe delayed"},
       {"--fp8-param-gather"}},
      {[](Problem& p, Candidate& c) {
         in_8_bits(p);
         c.knobs = {{"fp8_recipe", "tensorwise"}, {"fp8_param_gather", "on"}};
       },
       {"--fp8-format hybrid", "--fp8-recipe tensorwise", "--fp8-param-gather"},
       {"--reuse-grad-buf-for-mxfp8-param-ag"}},
      {[](Problem& p, Candidate& c) {
         in_8_bits(p);
         p.cluster.device.fp4 = FlopsPerSecond{9000e12};
         c.knobs = {{"fp8_recipe", "mxfp8"}, {"fp8_param_gather", "on"}};
       },
       {"--fp8-format e4m3", "--fp8-recipe mxfp8", "--reuse-grad-buf-for-mxfp8-param-ag"},
       {}},
      {[](Problem&, Candidate&) {}, {"--bf16"}, {"--fp8-format", "--fp8-recipe"}},
      {[](Problem&, Candidate& c) { c.cp = 2, c.dp = 4; },
       {"--context-parallel-size 2", "--cp-comm-type p2p"},
       {}}};
  for (const Case& each : cases) {
    EmitRequest asked = request();
    each.change(asked.plan.problem, asked.plan.candidate);
    const LaunchConfig config = emit(asked);
    for (const char* words : each.has) EXPECT_TRUE(has(config, words)) << line_of(config);
    for (const char* words : each.hasnt) EXPECT_FALSE(has(config, words)) << line_of(config);
  }
}

TEST(MegatronEmit, DescribesOtherModels) {
  EmitRequest asked = request();
  BlockSpec& block = asked.plan.problem.model.runs[0].block;
  block = {.heads = 32, .kv_heads = 32, .head_dim = 128, .ffn = 16384};
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  asked.plan.problem.model.positions = Positions::learned;
  asked.plan.problem.model.tied_embeddings = true;
  const LaunchConfig gpt = emit(asked);
  for (const char* words :
       {"--position-embedding-type learned_absolute", "--normalization LayerNorm"}) {
    EXPECT_TRUE(has(gpt, words)) << words;
  }
  for (const char* words :
       {"--group-query-attention", "--rotary-base", "--swiglu", "--disable-bias-linear",
        "--add-qkv-bias", "--untie-embeddings-and-output-weights"}) {
    EXPECT_FALSE(has(gpt, words)) << words;
  }
  block.out_bias = block.mlp_bias = false;
  block.qk_norm = true;
  block.norm = NormKind::rms_norm;
  EXPECT_TRUE(has(emit(asked), "--disable-bias-linear --add-qkv-bias"));
  EXPECT_TRUE(has(emit(asked), "--qk-layernorm"));
}

TEST(MegatronEmit, DescribesLatentAttention) {
  EmitRequest asked = request();
  BlockSpec& block = asked.plan.problem.model.runs[0].block;
  block.latent =
      LatentSpec{.kv_rank = 512, .q_rank = 1536, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  const LaunchConfig config = emit(asked);
  for (const char* words :
       {"--multi-latent-attention", "--q-lora-rank 1536", "--kv-lora-rank 512", "--qk-head-dim 128",
        "--qk-pos-emb-head-dim 64", "--v-head-dim 128", "--qk-layernorm", "--rope-type rope",
        "--no-rope-fusion", "--position-embedding-type rope"}) {
    EXPECT_TRUE(has(config, words)) << line_of(config);
  }
  EXPECT_FALSE(has(config, "--group-query-attention"));
  block.latent->q_rank = 0;
  EXPECT_FALSE(has(emit(asked), "--q-lora-rank"));
}

TEST(MegatronEmit, DescribesExperts) {
  EmitRequest asked = request();
  add_experts(asked.plan.problem);
  asked.plan.candidate.ep = 4;
  const LaunchConfig config = emit(asked);
  for (const char* words :
       {"--num-layers 16", "--ffn-hidden-size 14336", "--num-experts 8", "--moe-router-topk 2",
        "--moe-ffn-hidden-size 1024", "--moe-layer-freq ([0]*1+[1]*15)",
        "--moe-shared-expert-intermediate-size 2048", "--expert-model-parallel-size 4",
        "--expert-tensor-parallel-size 1", "--moe-token-dispatcher-type alltoall"}) {
    EXPECT_TRUE(has(config, words)) << line_of(config);
  }
  EXPECT_EQ(testing::words_of_script(text_of(config, "launch.sh")), config.command)
      << "parentheses and stars are in quotes";
}

TEST(MegatronEmit, LeavesToTheUserWhatTheyGive) {
  EmitRequest asked = request();
  EXPECT_TRUE(warns(emit(asked), "mock data", "--data-path"));
  EXPECT_TRUE(warns(emit(asked), "ends after 10", "--train-iters"));
  EXPECT_TRUE(warns(emit(asked), "pretrain_gpt.py", "its path behind --"));
  asked.user.words = {"/opt/Megatron-LM/pretrain_gpt.py",
                      "--data-path=corpus",
                      "--tokenizer-type",
                      "HuggingFaceTokenizer",
                      "--train-samples",
                      "1000",
                      "--lr=3e-4"};
  const LaunchConfig config = emit(asked);
  EXPECT_EQ(config.command.at(3), "/opt/Megatron-LM/pretrain_gpt.py");
  for (const char* option : {"--mock-data", "--vocab-size", "--train-iters", "--lr"}) {
    EXPECT_FALSE(has(config, option)) << option;
  }
  EXPECT_EQ(config.command.back(), "--lr=3e-4");
  for (const char* gone : {"mock data", "ends after", "pretrain_gpt.py"}) {
    EXPECT_FALSE(warns(config, gone)) << gone;
  }
  asked.user.words = {"--data-path", "corpus"};
  EXPECT_EQ(emit(asked).command.at(3), "pretrain_gpt.py")
      << "arguments of Megatron-LM's own script";
}

TEST(MegatronEmit, CutsAProbe) {
  for (const char* version : kVersions) {
    EmitRequest asked = request(version);
    asked.probe = true;
    asked.steps = 4;
    const LaunchConfig config = emit(asked);
    EXPECT_TRUE(has(config, "--train-iters 4")) << version;
    EXPECT_TRUE(has(config, "--exit-interval 4 --eval-iters 0 --log-interval 1")) << version;
    EXPECT_EQ(has(config, "--log-memory-interval 1"), std::string(version) == "0.19.2");
    EXPECT_FALSE(warns(config, "ends after"));
  }
}

TEST(MegatronEmit, FollowsTheVersion) {
  EXPECT_TRUE(has(emit(request("0.17.1")), "--vocab-size 128255")) << "and the end of a document";
  EXPECT_TRUE(has(emit(request("0.18.0")), "--vocab-size 128256"));
  EmitRequest asked = request("0.16.0");
  asked.plan.problem.model.runs[0].block.kv_heads = 2;
  asked.plan.candidate.dp = 2;
  asked.plan.candidate.tp = 4;
  EXPECT_EQ(testing::refusal(emit, asked), "");
  asked.plan.problem.target_version = "0.14.0";
  EXPECT_NE(testing::refusal(emit, asked).find("from 0.16 on"), std::string::npos);
}

TEST(MegatronEmit, SerializesKernelsForModelRanks) {
  EXPECT_EQ(emit(staged()).environment.at("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
  EXPECT_EQ(emit(request()).environment.count("CUDA_DEVICE_MAX_CONNECTIONS"), 0U);
  EmitRequest asked = staged();
  asked.user.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
  EXPECT_NE(testing::refusal(emit, asked).find("contradicts the plan"), std::string::npos);
}

TEST(MegatronEmit, KeepsWeightsOutOfWhatTransformerEngineOffloads) {
  EmitRequest asked = staged("0.19.2");
  EXPECT_EQ(emit(asked).environment.count("NVTE_CPU_OFFLOAD_V1"), 0U);
  asked.plan.candidate.recompute = {};
  asked.plan.candidate.offload.activations = true;
  EXPECT_EQ(emit(asked).environment.at("NVTE_CPU_OFFLOAD_V1"), "1");
}

TEST(MegatronEmit, NoNameBecomesAnArgument) {
  for (const std::string& text : testing::hostile_texts()) {
    EmitRequest asked = request();
    asked.plan.evidence.study = asked.plan.problem.model.name = text;
    EXPECT_EQ(body(emit(asked)), body(emit(request()))) << text;
    EXPECT_EQ(YAML::Load(text_of(emit(asked), "megatron_args.yaml")).size(), 42U) << text;
    EXPECT_EQ(emit(asked).command, emit(request()).command) << text;
  }
}

/// Whether an option takes a value, of those that a version has.
std::map<std::string, bool> options_of(const std::string& version) {
  std::istringstream rows(read_file(PLANWRIGHT_SOURCE_DIR "/tests/data/megatron_options.csv"));
  const std::string series = version.substr(0, version.rfind('.'));
  std::map<std::string, bool> options;
  for (std::string row; std::getline(rows, row);) {
    if (!row.starts_with("--") || row.find(series) == std::string::npos) continue;
    const std::size_t comma = row.find(',');
    options[row.substr(0, comma)] = row[comma + 1] == '1';
  }
  return options;
}

/// Plans that together have every word there is.
std::vector<EmitRequest> all_words(const char* version) {
  std::vector<EmitRequest> requests(9, staged(version));
  for (EmitRequest& each : requests) {
    each.probe = true;
    each.steps = 3;
  }
  const auto candidate = [&](std::size_t i) -> Candidate& { return requests[i].plan.candidate; };
  const auto problem = [&](std::size_t i) -> Problem& { return requests[i].plan.problem; };
  candidate(1).recompute = parse_recompute("selective:core_attn+mlp", "", "");
  candidate(1).offload.optimizer = true;
  candidate(1).hsdp = 2, candidate(1).dp = 4, candidate(1).pp = 1;
  candidate(2).cp = 2, candidate(2).dp = 1;
  candidate(3).vpp = 2;
  candidate(3).schedule = Schedule::interleaved;
  problem(4).model.runs[0].count = 31;
  add_experts(problem(5));
  problem(5).model.runs[1].block.moe = MoeSpec{.experts = 8,
                                               .top_k = 2,
                                               .ffn = 1024,
                                               .weights_sum_to_one = false,
                                               .groups = 4,
                                               .top_groups = 2,
                                               .weights_scale = 16.0};
  if (std::string(version) != "0.14.0") {
    candidate(5).recompute = {};
    candidate(5).offload.activations = true;
  }
  problem(6).workload.recipe.gradient = DType::bf16;
  problem(6).model.runs[0].block.qkv_bias = problem(6).model.runs[0].block.qk_norm = true;
  problem(7).workload.recipe = {DType::fp16, DType::fp16, DType::fp32, DType::fp32, DType::fp32};
  problem(7).workload.precision = Precision::fp16;
  if (std::string(version) == "0.14.0") candidate(6).loss = LossKernel::fused;
  in_8_bits(problem(8));
  problem(8).cluster.device.fp4 = FlopsPerSecond{9000e12};
  candidate(8).knobs = {{"fp8_recipe", "mxfp8"}, {"fp8_param_gather", "on"}};
  return requests;
}

TEST(MegatronEmit, HasOptionsThatTheVersionsParserHas) {
  for (const char* version : kVersions) {
    const auto known = options_of(version);
    ASSERT_GT(known.size(), 500U);
    for (const EmitRequest& asked : all_words(version)) {
      const auto words = arguments(emit(asked));
      for (std::size_t i = 0; i < words.size(); ++i) {
        if (!words[i].starts_with("--")) continue;
        const auto option = known.find(words[i]);
        ASSERT_NE(option, known.end()) << words[i] << " in " << version;
        const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("--");
        EXPECT_EQ(has_value, option->second) << words[i] << " in " << version;
      }
    }
  }
}

}  // namespace
}  // namespace planwright::targets::megatron
