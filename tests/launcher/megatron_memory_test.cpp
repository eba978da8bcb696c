#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "estimator/calibrate.h"
#include "estimator/coefficients.h"
#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/price.h"
#include "estimator/spec/hf_config.h"
#include "launcher/targets/megatron/traits.h"

/// What target megatron says of jobs whose peaks others measured. Nothing of it was fitted to them.
namespace planwright {
namespace {

enum class Family { llama_70b, llama_405b, deepseek_v2 };

/// Torch's largest allocated bytes over the ranks of 8 B200, in GiB; MooreThreads/SimuMax
/// docs/b200/b200_release_v1.2_summary.json @ 4dcaae5: Megatron-LM 23e00ed0 (core 0.14.0), TE 2.11,
/// bf16, distributed optimizer, micro-batch 1, fused cross entropy, all-to-all between context
/// ranks. Rows with other numbers of micro-batches have the same peaks.
struct Row {
  Family family;
  int tp, pp, cp, ep;
  std::int64_t seq;
  double gib;
};
constexpr Row kRows[] = {
    {Family::llama_70b, 1, 2, 1, 1, 4096, 66.552},
    {Family::llama_70b, 2, 1, 1, 1, 4096, 60.6801},
    {Family::llama_70b, 4, 1, 1, 1, 4096, 39.072},
    {Family::llama_70b, 8, 1, 1, 1, 4096, 28.2865},
    {Family::llama_405b, 1, 2, 1, 1, 4096, 87.0834},
    {Family::llama_405b, 2, 1, 1, 1, 4096, 81.5917},
    {Family::llama_405b, 4, 1, 1, 1, 4096, 52.8888},
    {Family::llama_405b, 8, 1, 1, 1, 4096, 38.5741},
    {Family::llama_70b, 2, 1, 4, 1, 32768, 68.4283},
    {Family::llama_70b, 1, 1, 8, 1, 32768, 104.5089},
    {Family::llama_405b, 2, 1, 4, 1, 32768, 87.0252},
    {Family::llama_405b, 1, 1, 8, 1, 32768, 139.2163},
    {Family::llama_70b, 2, 1, 4, 1, 131072, 112.6679},
    {Family::llama_70b, 1, 1, 8, 1, 131072, 147.9877},
    {Family::llama_405b, 2, 1, 4, 1, 131072, 118.1275},
    {Family::deepseek_v2, 1, 1, 1, 8, 4096, 45.6348},
    {Family::deepseek_v2, 1, 2, 1, 4, 4096, 44.7029},
};

/// The first layers of the models; the 405B one with 16 key/value heads, as it was run.
std::string config_of(Family family) {
  constexpr const char* kLlama =
      R"({{"model_type":"llama","hidden_size":{},"intermediate_size":{},"num_attention_heads":{},
      "num_key_value_heads":{},"num_hidden_layers":{},"vocab_size":128256,
      "max_position_embeddings":131072,"rms_norm_eps":1e-5,"tie_word_embeddings":false,
      "hidden_act":"silu","rope_theta":500000.0}})";
  switch (family) {
    case Family::llama_70b:
      return fmt::format(kLlama, 8192, 28672, 64, 8, 12);
    case Family::llama_405b:
      return fmt::format(kLlama, 16384, 53248, 128, 16, 4);
    case Family::deepseek_v2:
      break;
  }
  return R"({"model_type":"deepseek_v2","hidden_size":5120,"intermediate_size":12288,
      "moe_intermediate_size":1536,"n_routed_experts":160,"num_experts_per_tok":6,
      "n_shared_experts":2,"num_hidden_layers":4,"first_k_dense_replace":1,
      "num_attention_heads":128,"num_key_value_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,
      "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"vocab_size":102400,
      "max_position_embeddings":163840,"rms_norm_eps":1e-6,"tie_word_embeddings":false,
      "hidden_act":"silu","moe_layer_freq":1})";
}

Problem problem_of(const Row& row, int dp) {
  Problem problem;
  problem.target = "megatron";
  problem.model = model_from_hf_text(config_of(row.family), "a test");
  problem.cluster = estimator::preset_cluster(estimator::find_device("B200", "", ""), 8, 8);
  problem.workload.seq = row.seq;
  problem.workload.global_batch = 4 * dp;
  problem.workload.recipe = *targets::megatron::traits().recipe(Precision::bf16);
  return problem;
}

Candidate candidate_of(const Row& row) {
  Candidate candidate;
  candidate.tp = row.tp;
  candidate.pp = row.pp;
  candidate.cp = row.cp;
  candidate.ep = row.ep;
  candidate.dp = 8 / (row.tp * row.pp * row.cp);
  candidate.zero = 1;
  candidate.sp = row.tp > 1;
  candidate.loss = LossKernel::fused;
  if (row.cp > 1) candidate.knobs = {{"cp_comm_type", "a2a"}};
  return candidate;
}

Problem llama_8b() {
  Problem problem = problem_of({Family::llama_70b, 1, 1, 1, 1, 1024, 0}, 2);
  problem.model = estimator::find_model("llama-3.1-8b", "a test", "model");
  return problem;
}

/// On all 8, blocks run again.
Candidate sharded(int zero) {
  Candidate candidate;
  candidate.dp = 8;
  candidate.zero = zero;
  candidate.recompute.kind = RecomputeKind::full;
  return candidate;
}

double peak_gib(const estimator::Quantities& all) {
  std::int64_t peak = 0;
  for (const auto& stage : all.stages) {
    for (const auto& phase : stage.phases) peak = std::max(peak, phase.kernels.allocated().value);
  }
  return static_cast<double>(peak) / (1 << 30);
}

double predicted_gib(const Row& row) {
  const Candidate candidate = candidate_of(row);
  return peak_gib(
      estimator::quantify(problem_of(row, candidate.dp), targets::megatron::traits(), candidate));
}

TEST(MegatronMemory, IsWithinHalfAPercentOfWhatWasMeasured) {
  double sum = 0;
  for (const Row& row : kRows) {
    const double error = predicted_gib(row) / row.gib - 1;
    EXPECT_LT(std::abs(error), 0.005)
        << "tp " << row.tp << " pp " << row.pp << " cp " << row.cp << " ep " << row.ep << " seq "
        << row.seq << ": " << predicted_gib(row) << " of " << row.gib;
    sum += std::abs(error);
  }
  EXPECT_LT(sum / std::size(kRows), 0.001);
}

/// P parameters on 8 data ranks, 2 bytes of weights and 4 of gradients each, 12 of states.
struct Shares {
  int zero;
  double parameters, gradients, optimizer;
};

TEST(MegatronMemory, ShardsGradientsAndWeightsWithMegatronFsdp) {
  const Problem problem = llama_8b();
  const auto p = static_cast<double>(parameter_counts(problem.model).total);
  for (const Shares& share : {Shares{1, 2 * p, 4 * p, 12 * p / 8},
                              {2, 2 * p, 4 * p / 8, 12 * p / 8},
                              {3, 2 * p / 8, 4 * p / 8, 12 * p / 8}}) {
    const auto q = estimator::quantify(problem, targets::megatron::traits(), sharded(share.zero));
    const Ledger& loaded = q.stages.front().loaded;
    const auto bytes = [&](Account account) { return static_cast<double>(loaded[account].value); };
    EXPECT_NEAR(bytes(Account::parameters) / share.parameters, 1, 1e-4) << share.zero;
    EXPECT_NEAR(bytes(Account::gradients) / share.gradients, 1, 1e-4) << share.zero;
    EXPECT_NEAR(bytes(Account::optimizer) / share.optimizer, 1, 1e-4) << share.zero;
  }
}

/// 32 blocks of 218.1 million parameters; embedding and head of 525.3 million each, which stay.
/// Weights: a block at work and ahead of it half a billion elements, which take three blocks.
/// Gradients: head and three blocks are 1180 million, of which the head waits until a billion is
/// passed; the fourth block's bucket is there before the head's goes, and at the peak what backward
/// has made in 16 bits of gate and up.
TEST(MegatronMemory, GathersAheadAndQueuesWithMegatronFsdp) {
  const Problem problem = llama_8b();
  const auto q = estimator::quantify(problem, targets::megatron::traits(), sharded(3));
  const Ledger& peak = q.stages.front().phases[static_cast<std::size_t>(Phase::backward)].kernels;
  const double block = 4096.0 * (4096 + 2 * 1024 + 4096 + 3 * 14336 + 2);
  const double outer = 4096.0 * 128256, whole = 32 * block + 2 * outer + 4096;
  const auto bytes = [&](Account account) { return static_cast<double>(peak[account].value); };
  EXPECT_NEAR(bytes(Account::parameters) / (2 * (whole / 8 + 2 * outer + 4 * block)), 1, 1e-3);
  const double made = 2 * 4096.0 * 14336, queued = outer + 4 * block;
  EXPECT_NEAR(bytes(Account::gradients) / (4 * (whole / 8 + queued) + 2 * made), 1, 1e-3);
}

/// A table of many candidates keeps those apart that differ in a knob alone.
TEST(MegatronMemory, TellsWaysOfContextRanksApartInATable) {
  const Row row{Family::llama_70b, 1, 1, 8, 1, 131072, 0};
  Candidate candidate = candidate_of(row);
  const Problem problem = problem_of(row, candidate.dp);
  const auto& traits = targets::megatron::traits();
  estimator::QuantityTable table(problem, traits);
  for (const char* way : {"p2p", "a2a"}) {
    candidate.knobs = {{"cp_comm_type", way}};
    EXPECT_EQ(peak_gib(table.quantify(candidate)),
              peak_gib(estimator::quantify(problem, traits, candidate)))
        << way;
  }
}

std::int64_t first_stage_activations(const Problem& problem, const Candidate& candidate) {
  const auto all = estimator::quantify(problem, targets::megatron::traits(), candidate);
  const auto& phases = all.stages.front().phases;
  return phases[static_cast<std::size_t>(Phase::backward)].kernels[Account::activations].value;
}

/// What the first stage's parameters are in a steady step.
double parameters_of(const char* device, const char* recipe, const char* weights) {
  const Row row{Family::llama_70b, 1, 2, 1, 1, 4096, 0};
  Candidate candidate = candidate_of(row);
  Problem problem = problem_of(row, candidate.dp);
  problem.cluster = estimator::preset_cluster(estimator::find_device(device, "", ""), 8, 8);
  if (*recipe != '\0') {
    problem.workload.precision = Precision::fp8;
    candidate.knobs = {{"fp8_recipe", recipe}, {"fp8_param_gather", weights}};
  }
  const auto all = estimator::quantify(problem, targets::megatron::traits(), candidate);
  const auto& phases = all.stages.front().phases;
  const auto& steady = phases[static_cast<std::size_t>(Phase::backward)].tensors;
  return static_cast<double>(steady[Account::parameters].value);
}

/// Copies for forward and backward beside those in 16 bits, or in their place.
TEST(MegatronMemory, HoldsWeightsIn8Bits) {
  constexpr double kHidden = 8192;
  constexpr double kMatrices = 6 * kHidden * ((64 + 2 * 8) * 128 + kHidden + 3 * 28672);
  constexpr double kPadding = 1e-5 * kMatrices;
  struct Case {
    const char *device, *recipe, *weights;
    double bytes;  ///< for each weight, more than in 16 bits alone
  };
  const Case cases[] = {
      {"H100-SXM5-80GB", "delayed", "off", 2},
      {"H100-SXM5-80GB", "tensorwise", "on", 0},
      {"H100-SXM5-80GB", "blockwise", "off", 2 + 2 * 4.0 / (128 * 128)},
      {"B200", "tensorwise", "off", 1},
      {"B200", "tensorwise", "on", -1},
      {"B200", "mxfp8", "off", 2 + 2.0 / 32},
      {"B200", "mxfp8", "on", 2.0 / 32},
  };
  for (const Case& each : cases) {
    const double more =
        parameters_of(each.device, each.recipe, each.weights) - parameters_of(each.device, "", "");
    EXPECT_NEAR(more, each.bytes * kMatrices, kPadding)
        << each.device << " " << each.recipe << " " << each.weights;
  }
}

/// Products of blocks take half the time, attention and the head as long, casts some more.
TEST(MegatronMemory, ComputesProductsIn8BitsFaster) {
  const Row row{Family::llama_70b, 1, 2, 1, 1, 4096, 0};
  const Candidate candidate = candidate_of(row);
  Problem problem = problem_of(row, candidate.dp);
  const auto& traits = targets::megatron::traits();
  const auto wide = estimator::quantify(problem, traits, candidate).stages;
  problem.workload.precision = Precision::fp8;
  const auto narrow = estimator::quantify(problem, traits, candidate).stages;
  EXPECT_DOUBLE_EQ(narrow[0].forward.matrix_flops, wide[0].forward.matrix_flops / 2);
  EXPECT_DOUBLE_EQ(narrow[0].backward.matrix_flops, wide[0].backward.matrix_flops / 2);
  EXPECT_EQ(narrow[0].forward.attention_flops, wide[0].forward.attention_flops);
  EXPECT_EQ(narrow[1].head.matrix_flops, wide[1].head.matrix_flops);
  EXPECT_GT(narrow[0].forward.bytes, wide[0].forward.bytes);
}

/// With sequence parallelism what is gathered for products is half as large, sums are not.
TEST(MegatronMemory, GathersOperandsIn8Bits) {
  const Row row{Family::llama_70b, 2, 1, 1, 1, 4096, 0};
  const Candidate candidate = candidate_of(row);
  Problem problem = problem_of(row, candidate.dp);
  const auto bytes_of = [&](estimator::Collective kind) {
    double bytes = 0;
    const auto all = estimator::quantify(problem, targets::megatron::traits(), candidate);
    for (const auto& each : all.stages.front().waited) {
      if (each.collective == kind) bytes += each.bytes;
    }
    return bytes;
  };
  const double gathered = bytes_of(estimator::Collective::all_gather);
  const double scattered = bytes_of(estimator::Collective::reduce_scatter);
  problem.workload.precision = Precision::fp8;
  // Of 12 layers 6 gatherings each, and of embedding and head one each.
  EXPECT_DOUBLE_EQ(bytes_of(estimator::Collective::all_gather), gathered * (72 / 2.0 + 2) / 74);
  EXPECT_EQ(bytes_of(estimator::Collective::reduce_scatter), scattered);
}

/// Of pp stages with vpp chunks each the first has 2 (pp - 1) + (vpp - 1) pp + 1 chunks in flight,
/// where 1F1B has pp times as many layers as a stage.
TEST(MegatronMemory, KeepsMoreWithInterleavedStages) {
  Row row{Family::llama_70b, 1, 2, 1, 1, 4096, 0};
  Problem problem = problem_of(row, 4);
  const Candidate plain = candidate_of(row);
  Candidate interleaved = plain;
  interleaved.vpp = 3;
  interleaved.schedule = Schedule::interleaved;
  const auto at = [&](std::int64_t layers, const Candidate& candidate) {
    problem.model.runs.front().count = layers;
    return first_stage_activations(problem, candidate);
  };
  const std::int64_t of_layer = (at(24, plain) - at(12, plain)) / (2 * 6);
  const std::int64_t chunks = 2 * (2 - 1) + (3 - 1) * 2 + 1;
  EXPECT_EQ((at(24, interleaved) - at(12, interleaved)) / (chunks * 2), of_layer);
}

/// The time of an idle pipeline is that of a chunk.
TEST(MegatronMemory, WaitsLessWithInterleavedStages) {
  const Row row{Family::llama_70b, 1, 2, 1, 1, 4096, 0};
  const Problem problem = problem_of(row, 4);
  const auto& traits = targets::megatron::traits();
  Candidate candidate = candidate_of(row);
  const auto calibration = estimator::prior_calibration(problem, traits, std::nullopt);
  const auto bubble = [&] {
    return estimator::estimate(problem, traits, candidate, calibration).time.bubble.value;
  };
  const double plain = bubble();
  candidate.vpp = 3;
  candidate.schedule = Schedule::interleaved;
  EXPECT_LT(bubble(), 0.4 * plain);
}

/// A block of each of three chunks is three of the stage: what is made again, and what tensor ranks
/// gather meanwhile.
TEST(MegatronMemory, RecomputesTheFirstBlocksOfEachVirtualStage) {
  const Row row{Family::llama_70b, 2, 2, 1, 1, 4096, 0};
  const Problem problem = problem_of(row, 4);
  estimator::QuantityTable table(problem, targets::megatron::traits());
  Candidate plain = candidate_of(row);
  plain.recompute = {RecomputeKind::first, 3, {}};
  Candidate interleaved = candidate_of(row);
  interleaved.vpp = 3;
  interleaved.schedule = Schedule::interleaved;
  interleaved.recompute = {RecomputeKind::first, 1, {}};
  const auto of_stage = table.quantify(plain).stages.front();
  const auto of_chunks = table.quantify(interleaved).stages.front();
  EXPECT_GT(of_chunks.recompute.matrix_flops, 0);
  EXPECT_EQ(of_chunks.recompute.matrix_flops, of_stage.recompute.matrix_flops);
  EXPECT_EQ(of_chunks.recompute.bytes, of_stage.recompute.bytes);
  const auto gathered = [](const estimator::StageQuantities& stage) {
    double bytes = 0;
    for (const auto& each : stage.waited) {
      if (each.collective == estimator::Collective::all_gather) bytes += each.bytes;
    }
    return bytes;
  };
  EXPECT_GT(gathered(of_chunks), 0);
  EXPECT_EQ(gathered(of_chunks), gathered(of_stage));
}

}  // namespace
}  // namespace planwright
