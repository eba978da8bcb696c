#include "estimator/serving.h"

#include <gtest/gtest.h>

#include "estimator/calibrate.h"
#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/serving_bytes.h"
#include "estimator/wall.h"
#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

constexpr double kGB = 1e9;

/// A server of a preset on a part of one node of 80 GB devices.
struct Served {
  Problem problem;
  Candidate candidate;
  Served(const char* model, int tp, std::int64_t context, std::int64_t sequences) {
    problem.model = find_model(model, "", "");
    problem.cluster = preset_cluster(find_device("H100-SXM5-80GB", "", ""), tp, 8);
    problem.workload.job = Job::inference;
    problem.workload.seq = context;
    problem.workload.global_batch = sequences;
    problem.workload.precision = Precision::bf16;
    problem.workload.recipe = {DType::bf16, DType::bf16, DType::bf16, {}, DType::bf16};
    candidate.tp = tp;
  }
  Served& weights(const char* format) {
    problem.workload.serving.weights = find_weight_format(format, "", "");
    return *this;
  }
  Served& cache(CacheType type) {
    problem.workload.serving.cache = type;
    return *this;
  }
  ServingPart part(int stage = 0) const { return serving_part(problem, candidate, stage); }
  Estimate estimate() const {
    return estimate_serving(problem, candidate,
                            prior_calibration(problem, testing::fake_traits(64), std::nullopt));
  }
};

TEST(Serving, CacheOf70BAt128kIs40GiB) {
  const Served served("llama-3.1-70b", 1, 131072, 1);
  EXPECT_EQ(cache_bytes_per_token(served.part()).value, 80 * 2 * 8 * 128 * 2);
  EXPECT_EQ(cache_bytes(served.part(), 131072).value, std::int64_t{40} << 30);
}

struct CacheCase {
  const char* about;
  const char* model;
  int tp;
  std::int64_t per_token;
};

TEST(Serving, CachePerTokenByKindOfAttention) {
  for (const CacheCase& c : {
           CacheCase{"as many keys as queries", "llama-2-7b", 1, 32 * 2 * 32 * 128 * 2},
           CacheCase{"grouped", "llama-3.1-8b", 1, 131072},
           CacheCase{"one key head, which every rank holds", "falcon-7b", 1, 32 * 2 * 64 * 2},
           CacheCase{"cut among ranks", "llama-3.1-70b", 8, 80 * 2 * 128 * 2},
           CacheCase{"more ranks than key heads", "qwen2.5-7b", 4, 28 * 2 * 128 * 2},
           CacheCase{"latent, whole on every rank", "deepseek-v3", 8, 61 * (512 + 64) * 2},
           CacheCase{"the attention layers of a hybrid", "jamba-v0.1", 1, 4 * 2 * 8 * 128 * 2},
           CacheCase{"no attention at all", "mamba-2.8b", 1, 0},
       }) {
    EXPECT_EQ(cache_bytes_per_token(Served(c.model, c.tp, 4096, 1).part()).value, c.per_token)
        << c.about;
  }
}

/// What servers printed of themselves (vLLM unless said otherwise): cache and tokens in it, and
/// weights, of one rank; 0: not printed. gpt-oss-120b is left out: its 64.4 GiB hold matrices that
/// a kernel's width was filled up for, 60.8 without.
struct PrintedCase {
  const char* source;
  const char* model;
  CacheType cache;
  double cache_gib, tokens, weights_gib;
};

const PrintedCase kPrinted[] = {
    {"vllm-project/vllm issue 10517", "llama-3.1-8b", CacheType::bf16, 3.81, 31232, 14.9888},
    {"vllm-project/vllm pull request 10511", "llama-3-8b", CacheType::bf16, 0, 0, 14.96},
    {"vllm-project/vllm pull request 24577", "qwen3-0.6b", CacheType::bf16, 69.66, 652144, 1.1201},
    {"pegainfer issue 422", "qwen3-4b", CacheType::bf16, 11.83, 86144, 0},
    {"FreeToken pull request 126", "qwen3-1.7b", CacheType::fp8, 2.9, 54284, 0},
    {"Compute Environment Discrepancies", "llama-3.1-8b", CacheType::bf16, 19.92, 163168, 0},
    {"TickerTaka runbook", "qwen2.5-3b", CacheType::fp16, 5.79, 168528, 5.7915},
    {"vinjn/nanotron-ultrascale-playbook", "qwen2.5-7b", CacheType::fp16, 0, 0, 14.25},
};

TEST(Serving, CachesAndWeightsAreWhatServersPrint) {
  for (const PrintedCase& c : kPrinted) {
    Served served(c.model, 1, 4096, 1);
    const ServingPart part = served.cache(c.cache).part();
    if (c.tokens > 0) {
      const double each = c.cache_gib * kGiB / c.tokens;
      EXPECT_NEAR(static_cast<double>(cache_bytes_per_token(part).value) / each, 1, 1e-3)
          << c.source;
    }
    if (c.weights_gib > 0) {
      EXPECT_NEAR(gib(weight_bytes(part)) / c.weights_gib, 1, 0.01) << c.source;
    }
  }
}

TEST(Serving, AWindowedLayerKeepsAWindow) {
  const Served served("gemma-2-9b", 1, 8192, 1);  // every second of 42 layers sees 4096 tokens
  const std::int64_t layer = 2 * 8 * 256 * 2;
  EXPECT_EQ(cache_bytes(served.part(), 8192).value, 21 * layer * (8192 + 4096));
  EXPECT_EQ(cache_bytes(served.part(), 1024).value, 42 * layer * 1024);
}

TEST(Serving, ASequenceTakesWholePages) {
  Served served("llama-3.1-8b", 1, 4096, 1);
  EXPECT_EQ(cache_bytes(served.part(), 1).value, 16 * 131072);
  EXPECT_EQ(cache_bytes(served.part(), 17).value, 32 * 131072);
  served.problem.workload.serving.page = 1;
  EXPECT_EQ(cache_bytes(served.part(), 17).value, 17 * 131072);
}

TEST(Serving, SmallerCacheTypesWithTheirScales) {
  const std::int64_t heads = 32 * 2 * 8;
  Served served("llama-3.1-8b", 1, 4096, 1);
  EXPECT_EQ(cache_bytes_per_token(served.cache(CacheType::fp8).part()).value, heads * 128);
  EXPECT_EQ(cache_bytes_per_token(served.cache(CacheType::int8).part()).value, heads * (128 + 4));
  EXPECT_EQ(cache_bytes_per_token(served.cache(CacheType::int4).part()).value, heads * (64 + 4));
}

TEST(Serving, MambaKeepsItsStateWhateverTheContext) {
  const Served served("mamba-2.8b", 1, 4096, 1);
  const std::int64_t state = 64 * 5120 * (16 * 4 + 4 * 2);
  EXPECT_EQ(cache_bytes(served.part(), 1).value, state);
  EXPECT_EQ(cache_bytes(served.part(), 1 << 20).value, state);
}

TEST(Serving, WeightsInTheirFormats) {
  Served served("llama-2-7b", 1, 4096, 1);
  const double plain = static_cast<double>(weight_bytes(served.part()).value);
  EXPECT_EQ(plain, 2.0 * 6738415616);
  const double outside = 2.0 * (2 * 32000 * 4096 + 65 * 4096);  // embedding, head, norms
  const double four_bits = static_cast<double>(weight_bytes(served.weights("nf4").part()).value);
  EXPECT_DOUBLE_EQ(four_bits, outside + (plain - outside) / 4 * 1.125);
}

TEST(Serving, WeightsInBinaryAndDecimalUnits) {  // UR-044
  const Bytes bloom = weight_bytes(Served("bloom-176b", 1, 512, 1).part());
  EXPECT_NEAR(static_cast<double>(bloom.value) / kGB, 352.5, 0.05);
  EXPECT_NEAR(gib(bloom), 328.3, 0.05);
}

TEST(Serving, LatentAttentionsParametersOfALayer) {  // UR-015
  std::int64_t attention = 0;
  for (const ParameterTensor& each : parameter_tensors(find_model("deepseek-v2-lite", "", ""))) {
    const bool mixer = each.name.find("q_b") != std::string::npos ||
                       each.name.find("kv_") != std::string::npos ||
                       each.name.find("out") != std::string::npos;
    if (each.name.starts_with("blocks.3.") && mixer && each.linear) attention += each.numel();
  }
  EXPECT_EQ(attention, 13'762'560) << "13,763,072 with the norm of 512 latent elements";
}

TEST(Serving, ACheckpointIsServedAsItIsStored) {
  const Served oss("gpt-oss-20b", 1, 4096, 1);  // experts in mxfp4, the rest in bf16
  EXPECT_NEAR(static_cast<double>(weight_bytes(oss.part()).value) / 1e9, 13.76, 0.05);
  const Served v3("deepseek-v3", 8, 4096, 1);
  EXPECT_NEAR(8 * static_cast<double>(weight_bytes(v3.part()).value) / 1e9, 671 + 2, 40);
}

TEST(Serving, ThirteenBillionIn16BitsFitAn80GBCard) {
  const Estimate estimate = Served("llama-2-13b", 1, 4096, 1).estimate();
  EXPECT_EQ(estimate.verdict, Verdict::fits) << estimate.reason;
  EXPECT_NEAR(static_cast<double>(estimate.serving->weights.value) / kGB, 26.03, 0.01);
  EXPECT_EQ(estimate.wall, Wall::stays);
}

/// Dettmers et al. (2023), arXiv:2305.14314: 65 billion parameters are fine-tuned on one 48 GB
/// card, with nf4 and double quantisation and adapters of rank 64 in every linear layer. Sizes:
/// Touvron et al. (2023), arXiv:2302.13971, table 2.
TEST(Serving, SixtyFiveBillionInNf4WithAdaptersWithin48GB) {
  Served served("llama-2-7b", 1, 512, 1);
  ModelSpec& model = served.problem.model;
  model.hidden = 8192;
  model.runs.front().count = 80;
  BlockSpec& block = model.runs.front().block;
  block.heads = block.kv_heads = 64;
  block.ffn = 22016;
  EXPECT_EQ(parameter_counts(model).total, 65'285'660'672);
  const Bytes weights = weight_bytes(served.weights("nf4-dq").part());
  EXPECT_NEAR(gib(weights), 32.1, 0.1);

  model.lora = {64,
                {LoraTarget::q_proj, LoraTarget::k_proj, LoraTarget::v_proj, LoraTarget::o_proj,
                 LoraTarget::gate_proj, LoraTarget::up_proj, LoraTarget::down_proj}};
  const std::int64_t adapters = parameter_counts(model).trainable;
  EXPECT_EQ(adapters, 80 * 64 * (4 * (8192 + 8192) + 3 * (8192 + 22016)));
  const Bytes states = Bytes{16 * adapters};        // weight, gradient and two moments in fp32
  const Bytes inputs = Bytes{80 * 512 * 8192 * 2};  // of every block, the rest is computed again
  EXPECT_LT(gib(weights + states + inputs), 0.95 * 48);
  EXPECT_GT(2.0 * 65e9, 48 * 0x1p30) << "not without quantisation";
}

TEST(Serving, SeventyBillionAt128kNeedCutting) {
  EXPECT_EQ(Served("llama-3.1-70b", 1, 131072, 1).estimate().verdict, Verdict::too_large);
  const Estimate two = Served("llama-3.1-70b", 2, 131072, 1).estimate();
  EXPECT_EQ(two.verdict, Verdict::too_large);
  EXPECT_NE(two.reason.find("would fit"), std::string::npos) << two.reason;
  EXPECT_EQ(Served("llama-3.1-70b", 4, 131072, 1).estimate().verdict, Verdict::fits);
  const Estimate one =
      Served("llama-3.1-70b", 1, 131072, 1).weights("nf4").cache(CacheType::fp8).estimate();
  EXPECT_EQ(one.verdict, Verdict::fits) << one.reason;
}

TEST(Serving, WhatIsSaidToFitFitsAndOneMoreDoesNot) {
  const Served served("llama-3.1-8b", 1, 8192, 1);
  const ServingEstimate facts = *served.estimate().serving;
  ASSERT_GT(facts.most_sequences, 1);
  const auto verdict = [](std::int64_t context, std::int64_t sequences) {
    return Served("llama-3.1-8b", 1, context, sequences).estimate().verdict;
  };
  EXPECT_EQ(verdict(8192, facts.most_sequences), Verdict::fits);
  EXPECT_EQ(verdict(8192, facts.most_sequences + 1), Verdict::too_large);
  EXPECT_EQ(facts.longest_context, 131072) << "all positions";
}

TEST(Serving, AStepMakesATokenOfEachSequence) {
  const Estimate estimate = Served("llama-3.1-8b", 2, 8192, 6).estimate();
  EXPECT_DOUBLE_EQ(estimate.tokens_per_second_per_device, 6 / 2.0 / estimate.step_time.value);
}

TEST(Serving, AStageHoldsItsLayers) {
  Served served("llama-3.1-8b", 1, 4096, 1);
  served.problem.cluster = preset_cluster(served.problem.cluster.device, 2, 8);
  served.candidate.pp = 2;
  const Bytes both = weight_bytes(served.part(0)) + weight_bytes(served.part(1));
  EXPECT_EQ(both.value, 2 * 8'030'261'248);
  EXPECT_EQ(cache_bytes_per_token(served.part(0)).value, 131072 / 2);
  EXPECT_EQ(served.estimate().stages.size(), 2u);
}

TEST(Serving, ExpertsAreSizedByAllAndPricedByThoseThatAreUsed) {  // UR-014, UR-016
  const Quantities dense = quantify_serving(Served("llama-2-70b", 4, 4096, 1).problem,
                                            Served("llama-2-70b", 4, 4096, 1).candidate);
  const Served mixed("mixtral-8x7b", 4, 4096, 1);
  const Quantities experts = quantify_serving(mixed.problem, mixed.candidate);
  EXPECT_EQ(experts.model_flops, 2.0 * 12'879'925'248);
  EXPECT_EQ(dense.model_flops, 2.0 * 68'976'648'192);
  EXPECT_NEAR(4 * static_cast<double>(weight_bytes(mixed.part()).value), 2.0 * 46'702'792'704, 1e7);
  EXPECT_LT(experts.stages[0].forward.bytes,
            0.5 * static_cast<double>(weight_bytes(mixed.part()).value))
      << "one sequence reads two of eight experts";
}

TEST(Serving, ASharedBlockIsHeldOnceAndRunsInEveryLayer) {
  const Served albert("albert-base-v2", 1, 512, 1);
  EXPECT_EQ(weight_bytes(albert.part()).value, 2 * 11'221'680);
  const Quantities q = quantify_serving(albert.problem, albert.candidate);
  EXPECT_GT(q.stages[0].forward.attention_flops, 2.0 * 12 * 7'000'000) << "a block has 7.1 million";
}

TEST(Serving, AnEncoderIsNotServed) {
  const Estimate estimate = Served("albert-base-v2", 1, 512, 1).estimate();
  EXPECT_EQ(estimate.verdict, Verdict::invalid);
  EXPECT_NE(estimate.reason.find("decodes nothing"), std::string::npos) << estimate.reason;
}

TEST(Serving, IsTheReasonWhyWhatTrainsIsRefused) {
  Served sharded("llama-3.1-8b", 1, 4096, 1);
  sharded.problem.target = "a target that shards";
  sharded.candidate.zero = 3;
  EXPECT_EQ(sharded.estimate().reason,
            "an inference, under any target, does not support zero 3; use zero 0");
}

TEST(Serving, IllegalCutsAreNamed) {
  EXPECT_NE(Served("qwen2.5-7b", 3, 4096, 1).estimate().reason.find("28 heads"), std::string::npos);
  Served replicas("llama-3.1-8b", 1, 4096, 3);
  replicas.problem.cluster = preset_cluster(replicas.problem.cluster.device, 2, 8);
  replicas.candidate.dp = 2;
  EXPECT_EQ(replicas.estimate().verdict, Verdict::invalid);
  EXPECT_EQ(Served("llama-3.1-8b", 1, 200000, 1).estimate().verdict, Verdict::invalid);
}

TEST(Serving, EveryPresetHasALedger) {
  for (const std::string& name : model_presets()) {
    if (find_model(name, "", "").encoder) continue;
    const Estimate estimate = Served(name.c_str(), 1, 512, 2).estimate();
    if (estimate.verdict == Verdict::invalid) {
      ADD_FAILURE() << name << ": " << estimate.reason;
      continue;
    }
    const Ledger& at = estimate.peak().accounts;
    EXPECT_EQ(at[Account::parameters], estimate.serving->weights) << name;
    EXPECT_EQ(at[Account::kv_cache], estimate.serving->cache_per_sequence * 2) << name;
    EXPECT_GT(estimate.step_time, Seconds{}) << name;
  }
}

TEST(Wall, NamesTheAccountAndWhatCouldMoveIt) {
  const Served weights("llama-2-13b", 1, 128, 1);
  EXPECT_EQ(ruling_account(weights.estimate()).account, Account::parameters);
  const auto by =
      movers(weights.problem, testing::fake_traits(), weights.candidate, Account::parameters);
  EXPECT_NE(std::find(by.begin(), by.end(), "quantised weights"), by.end());
  const Served caches("llama-2-7b", 1, 4096, 16);
  EXPECT_EQ(ruling_account(caches.estimate()).account, Account::kv_cache);
  EXPECT_EQ(caches.estimate().wall, Wall::moves);
}

/// Of a job that trains, what its target has.
TEST(Wall, IsMovedByWhatTheTargetHas) {
  Problem problem = testing::fake_problem(testing::tiny_llama(), 2, Precision::bf16);
  TargetTraits traits = testing::fake_traits();
  const auto by = [&](Account account) {
    return movers(problem, traits, testing::data_parallel(2, 0, 1), account);
  };
  EXPECT_EQ(by(Account::optimizer), (std::vector<std::string>{"ZeRO 1", "8-bit optimizer states"}));
  EXPECT_EQ(by(Account::activations), std::vector<std::string>{"recomputation"});
  traits.axes.tp = {1, 2};
  traits.rules.push_back({"plain_adam",
                          [](const Problem& p, const Candidate&) {
                            return p.workload.optimizer != OptimizerKind::adamw;
                          },
                          "", "", ""});
  EXPECT_EQ(by(Account::optimizer), (std::vector<std::string>{"ZeRO 1", "tensor parallelism"}));
  problem.model.runs[0].block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 16};
  traits.axes.ep = {1, 2};
  EXPECT_EQ(by(Account::parameters),
            (std::vector<std::string>{"tensor parallelism", "expert parallelism"}));
}

TEST(Wall, NamesTensorParallelismWhereItCutsAnything) {
  const auto is_moved = [](const Served& served, Account account, const char* technique) {
    const auto by = movers(served.problem, testing::fake_traits(), served.candidate, account);
    return std::find(by.begin(), by.end(), technique) != by.end();
  };
  const char* const kTp = "tensor parallelism";
  EXPECT_TRUE(is_moved({"llama-3.1-8b", 4, 4096, 1}, Account::kv_cache, kTp));
  EXPECT_FALSE(is_moved({"llama-3.1-8b", 8, 4096, 1}, Account::kv_cache, kTp)) << "8 key heads";
  EXPECT_TRUE(is_moved({"llama-3.1-8b", 8, 4096, 1}, Account::parameters, kTp)) << "32 heads";
  EXPECT_FALSE(is_moved({"deepseek-v3", 1, 4096, 1}, Account::kv_cache, kTp)) << "latent";
  EXPECT_TRUE(is_moved({"mamba-2.8b", 1, 4096, 1}, Account::parameters, kTp));
  EXPECT_FALSE(is_moved({"gpt-oss-120b", 1, 4096, 1}, Account::parameters, "quantised weights"))
      << "its checkpoint has 4 bits";
  Served cached("llama-3.1-8b", 1, 4096, 1);
  EXPECT_TRUE(is_moved(cached, Account::kv_cache, "8-bit cache"));
  EXPECT_TRUE(is_moved(cached.cache(CacheType::fp8), Account::kv_cache, "4-bit cache"));
  EXPECT_FALSE(is_moved(cached.cache(CacheType::int4), Account::kv_cache, "4-bit cache"));
}

TEST(Serving, SaysWhatItsWeightsAreStoredAs) {
  EXPECT_EQ(Served("llama-3.1-8b", 1, 4096, 1).estimate().serving->weight_format, "bf16");
  EXPECT_EQ(Served("deepseek-v3", 8, 4096, 1).estimate().serving->weight_format, "fp8-block");
  EXPECT_EQ(Served("llama-3.1-8b", 1, 4096, 1).weights("nf4").estimate().serving->weight_format,
            "nf4");
}

}  // namespace
}  // namespace planwright::estimator
