#include <gtest/gtest.h>

#include <set>

#include "estimator/spec/rules.h"
#include "launcher/targets/megatron/emit.h"
#include "launcher/targets/megatron/traits.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::megatron {
namespace {

Candidate data_ranks(int zero = 1) {
  Candidate candidate;
  candidate.dp = 8;
  candidate.zero = zero;
  return candidate;
}

launcher::EmitRequest request(const char* version = "0.14.0") {
  launcher::EmitRequest asked = testing::emit_request("megatron", version, data_ranks());
  asked.plan.problem.workload.recipe = traits().recipe(Precision::bf16).value();
  return asked;
}

BlockSpec& block_of(Problem& problem) { return problem.model.runs[0].block; }

void ranks(Candidate& c, int tp, int pp = 1, int cp = 1) {
  c.tp = tp;
  c.pp = pp;
  c.cp = cp;
  c.dp = 8 / (tp * pp * cp);
}

void add_experts(Problem& p, const MoeSpec& moe) {
  block_of(p).ffn = 0;
  block_of(p).moe = moe;
}

constexpr LatentSpec kLatent{
    .kv_rank = 512, .q_rank = 1536, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
constexpr MoeSpec kExperts{.experts = 8, .top_k = 2, .ffn = 1024};

const std::vector<testing::Refused> kRefused = {
    {[](Problem& p, Candidate&) { p.cluster.device.kind = DeviceKind::cpu; }, {"GPUs"}},
    {[](Problem& p, Candidate&) { p.workload.job = Job::inference; }, {"inference"}},
    {[](Problem& p, Candidate&) { p.workload.job = Job::lora; }, {"adapters"}},
    {[](Problem& p, Candidate&) { p.workload.precision = Precision::fp64; }, {"precision fp64"}},
    {[](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::lion; }, {"lion"}},
    {[](Problem& p, Candidate&) { p.workload.recipe.state = DType::bf16; }, {"states in fp32"}},
    {[](Problem& p, Candidate&) { p.workload.recipe.master.reset(); }, {"--master-weights on"}},
    {[](Problem& p, Candidate&) { p.workload.recipe.gradient = DType::fp16; }, {"--grad-dtype"}},
    {[](Problem&, Candidate& c) {
       c.knobs = {{"overlap_comm", "on"}};
     },
     {"knob", "overlap_grad_reduce"}},
    // Tensor ranks.
    {[](Problem& p, Candidate& c) { ranks(c, 8), block_of(p).heads = 36; }, {"tp 8", "36 heads"}},
    {[](Problem& p, Candidate& c) { ranks(c, 8), block_of(p).kv_heads = 4; },
     {"tp 8", "4 key/value heads"}},
    {[](Problem& p, Candidate& c) { ranks(c, 4), block_of(p).ffn = 14338; }, {"tp 4", "MLPs"}},
    {[](Problem&, Candidate& c) { c.sp = true; }, {"switches sequence parallelism off"}},
    {[](Problem& p, Candidate& c) { ranks(c, 4), c.sp = true, p.workload.seq = 4098; },
     {"tp 4", "4098"}},
    // Stages.
    {[](Problem& p, Candidate& c) { ranks(c, 1, 8), p.model.runs[0].count = 7; },
     {"pp 8", "7 blocks"}},
    {[](Problem&, Candidate& c) { ranks(c, 1, 2), c.schedule = Schedule::gpipe; },
     {"schedule gpipe", "1f1b"}},
    {[](Problem&, Candidate& c) { ranks(c, 1, 2), c.schedule = Schedule::zero_bubble; },
     {"schedule zb"}},
    {[](Problem&, Candidate& c) { ranks(c, 1, 2), c.vpp = 2; }, {"vpp 2", "interleaved"}},
    {[](Problem&, Candidate& c) { c.vpp = 2, c.schedule = Schedule::interleaved; },
     {"pp 1 and vpp 2"}},
    {[](Problem&, Candidate& c) {
       ranks(c, 1, 2);
       c.vpp = 3;
       c.schedule = Schedule::interleaved;
     },
     {"vpp 3", "32 blocks"}},
    {[](Problem& p, Candidate& c) {
       ranks(c, 1, 4);
       c.vpp = 2;
       c.schedule = Schedule::interleaved;
       p.workload.global_batch = 12;
     },
     {"rounds of pp 4", "there are 6"}},
    {[](Problem&, Candidate& c) {
       ranks(c, 1, 2);
       c.stages = {StagePlan{20, {}, {}}, StagePlan{11, {}, {}}};
     },
     {"do not hold", "32 layers"}},
    {[](Problem&, Candidate& c) {
       ranks(c, 1, 2);
       c.stages = {StagePlan{20, {RecomputeKind::full, 0, {}}, {}}, StagePlan{12, {}, {}}};
     },
     {"alike on every stage"}},
    // Contexts and kernels.
    {[](Problem& p, Candidate& c) { ranks(c, 1, 1, 4), p.workload.seq = 4100; },
     {"4100", "2 x cp 4"}},
    {[](Problem&, Candidate& c) { ranks(c, 1, 1, 2), c.attention = AttentionKernel::eager; },
     {"no eager attention", "cp 2"}},
    {[](Problem& p, Candidate&) {
       p.workload.precision = Precision::fp32;
       p.workload.recipe = PrecisionRecipe{};
     },
     {"16-bit types, not fp32", "eager"}},
    {[](Problem&, Candidate& c) { c.loss = LossKernel::chunked; }, {"loss chunked"}},
    {[](Problem&, Candidate& c) {
       c.loss = LossKernel::fused;
       c.knobs = {{"deterministic_mode", "on"}};
     },
     {"--deterministic-mode", "--loss plain"}},
    // Experts.
    {[](Problem&, Candidate& c) { c.ep = 2; }, {"ep 2", "the model has none"}},
    {[](Problem&, Candidate& c) { c.etp = 2; }, {"etp 2", "the model has none"}},
    {[](Problem& p, Candidate& c) { add_experts(p, kExperts), c.ep = 3; }, {"ep 3", "experts"}},
    {[](Problem& p, Candidate& c) { add_experts(p, kExperts), ranks(c, 1, 2), c.ep = 8; },
     {"ep 8 x etp 1", "dp 4"}},
    {[](Problem& p, Candidate& c) { add_experts(p, kExperts), ranks(c, 2); },
     {"sequence parallelism only"}},
    {[](Problem& p, Candidate& c) {
       add_experts(p, kExperts);
       c.ep = 2;
       p.workload.precision = Precision::fp16;
       p.workload.recipe = traits().recipe(Precision::fp16).value();
     },
     {"fp16", "ep 2"}},
    {[](Problem& p, Candidate& c) { add_experts(p, kExperts), c.etp = 3; }, {"etp 3", "width"}},
    // States.
    {[](Problem&, Candidate& c) { ranks(c, 1, 2), c.zero = 3; }, {"Megatron-FSDP", "pp 2"}},
    {[](Problem& p, Candidate& c) {
       c.zero = 2;
       c.attention = AttentionKernel::eager;
       p.workload.precision = Precision::fp32;
       p.workload.recipe = PrecisionRecipe{};
     },
     {"Megatron-FSDP", "16 bits", "precision fp32"}},
    {[](Problem&, Candidate& c) { c.offload.optimizer = true, c.zero = 3; },
     {"Megatron-FSDP", "offload optimizer"}},
    {[](Problem&, Candidate& c) { c.hsdp = 3; }, {"hsdp 3", "dp 8"}},
    {[](Problem&, Candidate& c) { c.hsdp = 8; }, {"hsdp 8"}},
    {[](Problem&, Candidate& c) { c.hsdp = 2, c.zero = 0; }, {"hsdp 2", "--zero 1"}},
    {[](Problem&, Candidate& c) { c.offload.params = true; }, {"offload params"}},
    {[](Problem&, Candidate& c) { c.offload.activations = true; }, {"from 0.16 on"}},
    {[](Problem&, Candidate& c) {
       c.offload.optimizer = true;
       c.offload.to = OffloadTo::nvme;
     },
     {"nvme"}},
    {[](Problem&, Candidate& c) { c.offload.optimizer = true, c.zero = 0; },
     {"distributed optimizer", "zero 0"}},
    // Recomputation.
    {[](Problem&, Candidate& c) { c.recompute.kind = RecomputeKind::op; }, {"recompute op"}},
    {[](Problem&, Candidate& c) {
       c.recompute = {RecomputeKind::alternate, 2, {}};
     },
     {"recompute alternate:2"}},
    {[](Problem&, Candidate& c) {
       c.recompute = {RecomputeKind::selective, 0, {"router"}};
     },
     {"selective:router", "core_attn"}},
    {[](Problem& p, Candidate& c) {
       add_experts(p, kExperts);
       c.knobs = {{"moe_grouped_gemm", "off"}};
       c.recompute = {RecomputeKind::selective, 0, {"moe_act"}};
     },
     {"--moe-grouped-gemm", "leave moe_act"}},
    {[](Problem&, Candidate& c) {
       c.recompute = {RecomputeKind::selective, 0, {"mla_up_proj"}};
     },
     {"latent attention", "leave mla_up_proj out"}},
    {[](Problem&, Candidate& c) {
       c.recompute = {RecomputeKind::selective, 0, {"moe_act"}};
     },
     {"part of experts"}},
    {[](Problem& p, Candidate& c) {
       add_experts(p, kExperts);
       c.recompute = {RecomputeKind::selective, 0, {"shared_experts"}};
     },
     {"every token goes through", "leave shared_experts out"}},
    {[](Problem&, Candidate& c) {
       c.recompute = {RecomputeKind::chunk, 5, {}};
     },
     {"chunk:5", "0.17"}},
    // Models.
    {[](Problem& p, Candidate&) {
       block_of(p).latent = kLatent;
       p.model.positions = Positions::learned;
     },
     {"latent attention", "rotary"}},
    {[](Problem& p, Candidate&) {
       block_of(p).latent = kLatent;
       block_of(p).qkv_bias = true;
     },
     {"latent attention", "biases"}},
    {[](Problem& p, Candidate&) { p.model.positions = Positions::alibi; }, {"positions"}},
    {[](Problem& p, Candidate&) { block_of(p).sinks = true; }, {"attention sinks"}},
    {[](Problem& p, Candidate&) { block_of(p).residual = Residual::parallel; }, {"both at once"}},
    {[](Problem& p, Candidate&) { block_of(p).activation = Activation::gelu_tanh; }, {"SwiGLU"}},
    {[](Problem& p, Candidate&) { block_of(p).out_bias = true; }, {"biases"}},
    {[](Problem& p, Candidate&) {
       block_of(p).qk_norm = true;
       block_of(p).norm = NormKind::layer_norm;
     },
     {"--qk-layernorm"}},
    {[](Problem& p, Candidate&) { block_of(p).sliding_window = 1024; }, {"window", "1024"}},
    {[](Problem& p, Candidate&) { p.model.encoder = true; }, {"encoder"}},
    {[](Problem& p, Candidate&) {
       BlockSpec wide = block_of(p);
       wide.ffn *= 2;
       p.model.runs.push_back({2, wide});
     },
     {"one kind of block"}},
    {[](Problem& p, Candidate&) {
       MoeSpec gated = kExperts;
       gated.shared_gate = true;
       add_experts(p, gated);
     },
     {"gate of the model's experts"}}};

TEST(MegatronRules, RefuseEachWithWordsAndFix) {
  testing::expect_refused(emit, request(), kRefused);
}

/// So that what cannot be written is never planned.
TEST(MegatronRules, HoldForPlansToo) {
  for (const testing::Refused& each : kRefused) {
    launcher::EmitRequest asked = request();
    each.change(asked.plan.problem, asked.plan.candidate);
    EXPECT_NE(first_broken(traits().rules, asked.plan.problem, asked.plan.candidate), nullptr)
        << each.words.front();
  }
}

TEST(MegatronRules, OfALaterVersion) {
  testing::expect_refused(emit, request("0.19.2"),
                          {{[](Problem&, Candidate& c) { c.loss = LossKernel::fused; },
                            {"loss fused", "from 0.18 on"}}});
  launcher::EmitRequest asked = request("0.19.2");
  asked.plan.candidate.recompute = {RecomputeKind::chunk, 5, {}};
  EXPECT_EQ(testing::refusal(emit, asked), "");
}

TEST(MegatronTraits, NameASourceForEachRowAndRule) {
  for (const Holding& holding : traits().holdings) {
    EXPECT_NE(std::string(holding.source).find(" @ "), std::string::npos) << holding.source;
  }
  std::set<std::string> names;
  for (const Rule& rule : traits().rules) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " is there twice";
    EXPECT_FALSE(rule.source.empty()) << rule.name;
    const auto said = explain(rule, request().plan.problem, data_ranks());
    EXPECT_FALSE(said.text.empty()) << rule.name;
    for (const std::string& text : {said.text, said.fix}) {
      EXPECT_EQ(text.find('{'), std::string::npos) << rule.name << ": " << text;
    }
  }
}

std::string broken(const std::function<void(Problem&, Candidate&)>& change) {
  launcher::EmitRequest asked = request();
  change(asked.plan.problem, asked.plan.candidate);
  const auto rule = broken_rule(asked.plan.problem, traits(), asked.plan.candidate);
  return rule ? rule->name : "";
}

void on_hopper(Problem& p) {
  p.workload.precision = Precision::fp8;
  p.cluster.device.bf16 = FlopsPerSecond{989e12};
  p.cluster.device.fp8 = FlopsPerSecond{1979e12};
}

void set(Candidate& c, const char* recipe, const char* weights = "off") {
  c.knobs = {{"fp8_recipe", recipe}, {"fp8_param_gather", weights}};
}

const std::vector<testing::Refused> kRefusedFp8 = {
    {[](Problem& p, Candidate&) { on_hopper(p), p.cluster.device.fp8.reset(); },
     {"no products in 8 bits", "--precision bf16"}},
    {[](Problem& p, Candidate& c) { on_hopper(p), set(c, "mxfp8"); },
     {"blocks of 32", "fp8_recipe=tensorwise"}},
    {[](Problem& p, Candidate& c) { on_hopper(p), set(c, "subchannel"); }, {"fp8_recipe"}},
    {[](Problem& p, Candidate&) { on_hopper(p), block_of(p).ffn = 14344; }, {"multiples of 16"}},
    {[](Problem& p, Candidate&) { on_hopper(p), p.workload.seq = 4088; }, {"16 tokens"}},
    {[](Problem&, Candidate& c) { set(c, "delayed", "on"); },
     {"precision bf16", "--precision fp8"}},
    {[](Problem& p, Candidate& c) { on_hopper(p), set(c, "delayed", "on"), c.zero = 0; },
     {"zero 0", "--zero 1"}},
    {[](Problem& p, Candidate& c) {
       on_hopper(p);
       set(c, "tensorwise", "on");
       c.offload.optimizer = true;
     },
     {"fp8_recipe delayed only"}},
    {[](Problem& p, Candidate& c) {
       on_hopper(p);
       c.recompute = {RecomputeKind::selective, 0, {"layernorm"}};
     },
     {"selective:layernorm", "delayed cannot"}},
};

TEST(MegatronTraits, RefuseWhatProductsIn8BitsCannotDo) {
  testing::expect_refused(emit, request(), kRefusedFp8);
}

TEST(MegatronTraits, TakeBlocksOf32OnBlackwell) {
  launcher::EmitRequest asked = request();
  Problem& p = asked.plan.problem;
  on_hopper(p);
  p.cluster.device.fp4 = FlopsPerSecond{9000e12};
  set(asked.plan.candidate, "mxfp8", "on");
  EXPECT_EQ(testing::refusal(emit, asked), "");
  p.workload.seq = 4112;
  EXPECT_NE(testing::refusal(emit, asked), "") << "a multiple of 16 and not of 32";
}

TEST(MegatronTraits, PlanWhatCanBeEstimated) {
  EXPECT_EQ(broken([](Problem&, Candidate&) {}), "");
  EXPECT_EQ(broken([](Problem&, Candidate& c) { ranks(c, 2, 2), c.sp = true; }), "");
  EXPECT_EQ(broken([](Problem&, Candidate& c) { c.loss = LossKernel::fused; }), "");
  EXPECT_EQ(broken([](Problem&, Candidate& c) { c.recompute.kind = RecomputeKind::selective; }),
            "");
  EXPECT_EQ(broken([](Problem& p, Candidate&) { block_of(p).latent = kLatent; }), "");
  EXPECT_EQ(broken([](Problem&, Candidate& c) {
              ranks(c, 1, 2);
              c.vpp = 2;
              c.schedule = Schedule::interleaved;
            }),
            "");
  EXPECT_EQ(broken([](Problem& p, Candidate&) { p.workload.recipe.gradient = DType::bf16; }), "");
}

TEST(MegatronTraits, RefuseWhatCanBeWrittenAndNotEstimated) {
  const std::pair<const char*, std::function<void(Problem&, Candidate&)>> cases[] = {
      {"estimates_chunks_alike",
       [](Problem& p, Candidate& c) {
         p.model.runs = {{16, block_of(p)}, {16, block_of(p)}};
         block_of(p).ffn = 0;
         block_of(p).moe = kExperts;
         ranks(c, 1, 2);
         c.vpp = 2;
         c.schedule = Schedule::interleaved;
       }},
      {"hsdp_supported", [](Problem&, Candidate& c) { c.hsdp = 2; }},
      {"estimates_norms_again",
       [](Problem&, Candidate& c) {
         c.recompute = {RecomputeKind::selective, 0, {"layernorm", "mlp"}};
       }},
      {"estimates_mlps_again",
       [](Problem& p, Candidate& c) {
         block_of(p).moe = kExperts;
         c.recompute = {RecomputeKind::selective, 0, {"mlp"}};
       }},
      {"offload_supported", [](Problem&, Candidate& c) { c.offload.optimizer = true; }},
      {"estimates_optimizer",
       [](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::sgd; }}};
  for (const auto& [name, change] : cases) {
    launcher::EmitRequest asked = request();
    change(asked.plan.problem, asked.plan.candidate);
    EXPECT_EQ(testing::refusal(emit, asked), "") << name;
    EXPECT_EQ(broken(change), name);
  }
}

TEST(MegatronTraits, FollowMegatronsDefaults) {
  const PrecisionRecipe bf16{DType::bf16, DType::bf16, DType::fp32, DType::fp32, DType::fp32, {}};
  EXPECT_EQ(traits().recipe(Precision::bf16), bf16);
  EXPECT_EQ(traits().recipe(Precision::fp8), bf16);
  EXPECT_FALSE(traits().recipe(Precision::fp64));
  EXPECT_EQ(traits().padded_vocab(50257, Candidate{}), 50304);
  EXPECT_EQ(traits().padded_vocab(50257, Candidate{.tp = 8}), 51200);
  EXPECT_EQ(traits().bucket_elements(Candidate{.dp = 8}), 40'000'000);
  EXPECT_EQ(traits().bucket_elements(Candidate{.dp = 128}), 128'000'000);
  Candidate c = data_ranks();
  EXPECT_TRUE(traits().overlaps(c));
  c.knobs = {{"overlap_grad_reduce", "off"}};
  EXPECT_FALSE(traits().overlaps(c));
}

}  // namespace
}  // namespace planwright::targets::megatron
