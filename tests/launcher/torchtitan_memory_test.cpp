#include <gtest/gtest.h>

#include <string>

#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/quantities.h"
#include "estimator/spec/rules.h"
#include "launcher/targets/torchtitan/traits.h"

/// What target torchtitan says on GPUs of jobs whose peaks others measured. Nothing of it was
/// fitted to them.
namespace planwright::targets {
namespace {

struct Published {
  const char* model;
  std::int64_t seq;
  int tp, dp, micro_batch;
  RecomputeKind recompute;
  const char* revision = "0.2.2";
};

Problem problem_of(const Published& run) {
  const TargetTraits& traits = torchtitan::traits();
  Problem p;
  p.target = traits.name;
  p.model = estimator::find_model(run.model, "", "");
  p.cluster = estimator::preset_cluster(estimator::find_device("H100-SXM5-80GB", "", ""),
                                        run.tp * run.dp, 8);
  p.workload.seq = run.seq;
  p.workload.global_batch = std::int64_t{run.dp} * run.micro_batch;
  p.workload.recipe = *traits.recipe(Precision::bf16);
  return p;
}

double peak_gib(const Published& run) {
  Candidate c;
  c.tp = run.tp;
  c.sp = run.tp > 1;
  c.dp = run.dp;
  c.zero = 3;
  c.micro_batch = run.micro_batch;
  c.recompute.kind = run.recompute;
  if (run.revision != std::string("0.2.2")) c.knobs.emplace_back("torchtitan", run.revision);
  const auto stage = estimator::quantify(problem_of(run), torchtitan::traits(), c).stages.front();
  const Bytes peak = estimator::largest_tensors(stage).tensors.tensors();
  return static_cast<double>(peak.value) / (1 << 30);
}

/// pytorch/torchtitan commit 83c879f18: Llama 7B on 8 H100 of 95.04 GiB, sequences of 2048, eager,
/// per-parameter FSDP; "peak active" of 23.92 % with full recomputation and of 52.13 % with that of
/// operators. Its code was that of its day.
TEST(TorchtitanMemory, AgreesWithPublishedPeaks) {
  constexpr double kDevice = 95.0396;
  const Published full{"llama-2-7b", 2048, 1, 8, 8, RecomputeKind::full, "2024-03"};
  const Published op{"llama-2-7b", 2048, 1, 8, 8, RecomputeKind::op, "2024-03"};
  EXPECT_NEAR(peak_gib(full), 0.2392 * kDevice, 0.7);
  EXPECT_NEAR(peak_gib(op), 0.5213 * kDevice, 0.7);
  EXPECT_NEAR(peak_gib(op) - peak_gib(full), (0.5213 - 0.2392) * kDevice, 0.01);
}

/// Beside what is allocated: room for all reduced gradients of 4 bytes, and for the buffers of two
/// units or more, on streams of their own. What the loss takes cannot use it.
TEST(TorchtitanMemory, StreamsKeepRoomOfTheirOwn) {
  const Problem p = problem_of({"llama-3.1-8b", 8192, 1, 8, 1, RecomputeKind::full});
  Candidate c;
  c.dp = 8;
  c.zero = 3;
  c.recompute.kind = RecomputeKind::full;
  const auto beside = [&](Phase phase) {
    const auto stage = estimator::quantify(p, torchtitan::traits(), c).stages.front();
    return stage.phases[static_cast<std::size_t>(phase)].kernels[Account::fragmentation].value;
  };
  const auto parameters = static_cast<std::int64_t>(8030261248);
  EXPECT_GE(beside(Phase::loss), parameters / 8 * 4);
  EXPECT_LE(beside(Phase::loss), parameters / 8 * 4 + (std::int64_t{3} << 30));
  EXPECT_EQ(beside(Phase::optimizer), 0);
}

/// Once embedding and head were gathered together, for a whole step; and the optimizer had a
/// temporary tensor for each.
TEST(TorchtitanMemory, FollowsItsCode) {
  const auto peak = [](const char* revision) {
    return peak_gib({"llama-3.1-8b", 8192, 1, 8, 1, RecomputeKind::full, revision});
  };
  EXPECT_GT(peak("2024-03"), peak("2024-06")) << "held logits";
  EXPECT_GT(peak("2024-06"), peak("2025-07")) << "one outer unit";
  EXPECT_EQ(peak("2025-07"), peak("0.2.2")) << "which differ in experts";
}

TEST(TorchtitanMemory, GrowsWithWhatIsKept) {
  for (const char* model : {"llama-3.1-8b", "qwen3-8b"}) {
    for (const int tp : {1, 2}) {
      const auto peak = [&](RecomputeKind kind) {
        return peak_gib({model, 8192, tp, 8 / tp, 1, kind});
      };
      EXPECT_LT(peak(RecomputeKind::full), peak(RecomputeKind::op)) << model << tp;
      EXPECT_LT(peak(RecomputeKind::op), peak(RecomputeKind::none)) << model << tp;
    }
  }
}

/// On a CPU the scripts that stand in for its blocks know no operators.
TEST(TorchtitanMemory, SavesOperatorsOnGpusAlone) {
  Problem p = problem_of({"llama-3.1-8b", 8192, 1, 8, 1, RecomputeKind::op});
  Candidate c;
  c.dp = 8;
  c.zero = 3;
  c.recompute.kind = RecomputeKind::op;
  EXPECT_EQ(first_broken(torchtitan::traits().rules, p, c), nullptr);
  p.cluster.device.kind = DeviceKind::cpu;
  const Rule* const broken = first_broken(torchtitan::traits().rules, p, c);
  ASSERT_NE(broken, nullptr);
  EXPECT_EQ(broken->name, "estimates_recompute");
}

/// The model of tests/data/witness_model in two stages of torch 2.11.0, as
/// tests/frameworks/stages.py trains it on CPU ranks in fp32, with four micro-batches of four
/// sequences of 256 tokens: what the ranks' allocators had at most.
struct Staged {
  Schedule schedule;
  int vpp;
  std::int64_t first, last;
  double apart;
};

ModelSpec staged_model() {
  ModelSpec m;
  m.hidden = 256;
  m.vocab = 2003;
  m.runs = {{4,
             {.heads = 8,
              .kv_heads = 4,
              .head_dim = 32,
              .ffn = 691,
              .mlp = MlpKind::gated,
              .activation = Activation::silu,
              .norm = NormKind::rms_norm}}};
  return m;
}

TEST(TorchtitanMemory, AgreesWithTorchsStages) {
  const std::vector<Staged> runs{
      {Schedule::gpipe, 1, 188127320, 263837820, 0.001},
      {Schedule::one_f_one_b, 1, 118354008, 108101744, 0.001},
      {Schedule::interleaved, 2, 146534488, 134185072, 0.001},
      {Schedule::zero_bubble, 2, 136474712, 187293812, 0.01},
  };
  for (const Staged& run : runs) {
    Problem p = problem_of({"llama-2-7b", 256, 1, 2, 4, RecomputeKind::none});
    p.model = staged_model();
    p.workload.global_batch = 16;
    p.workload.precision = Precision::fp32;
    p.workload.recipe = *torchtitan::traits().recipe(Precision::fp32);
    Candidate c;
    c.pp = 2;
    c.vpp = run.vpp;
    c.schedule = run.schedule;
    c.micro_batch = 4;
    ASSERT_EQ(first_broken(torchtitan::traits().rules, p, c), nullptr);
    const auto stages = estimator::quantify(p, torchtitan::traits(), c).stages;
    const auto peak = [&](std::size_t stage) {
      const Bytes bytes = estimator::largest_tensors(stages[stage]).tensors.tensors();
      return static_cast<double>(bytes.value);
    };
    EXPECT_NEAR(peak(0) / static_cast<double>(run.first), 1, run.apart) << word(run.schedule);
    EXPECT_NEAR(peak(1) / static_cast<double>(run.last), 1, run.apart) << word(run.schedule);
  }
}

/// Buffers for what comes from and goes to neighbours: of each micro-batch, before and behind a
/// stage in the middle, 2 bytes a number.
TEST(TorchtitanMemory, GrowsWithMicroBatchesInStages) {
  const auto peak = [](std::int64_t micro_batches) {
    Problem p = problem_of({"llama-3.1-8b", 8192, 1, 8, 1, RecomputeKind::full});
    p.workload.global_batch = 2 * micro_batches;
    Candidate c;
    c.pp = 4;
    c.dp = 2;
    c.zero = 2;
    c.recompute.kind = RecomputeKind::full;
    const auto stage = estimator::quantify(p, torchtitan::traits(), c).stages[1];
    return estimator::largest_tensors(stage).tensors.tensors().value;
  };
  EXPECT_EQ(peak(32) - peak(16), std::int64_t{16} * 2 * (2 * 8192 * 4096));
}

/// The work of a backward that is put off fills what the others would wait: of stages alike, each
/// of the others' forward and backward less twice that.
TEST(TorchtitanMemory, PostponesTheWorkOfWeights) {
  Problem p = problem_of({"llama-3.1-8b", 8192, 1, 8, 1, RecomputeKind::none});
  p.workload.global_batch = 16;
  Candidate c;
  c.pp = 4;
  c.dp = 2;
  c.vpp = 2;
  c.zero = 2;
  c.schedule = Schedule::interleaved;
  const auto postponed = [&] {
    return estimator::quantify(p, torchtitan::traits(), c).stages[1].postponed.matrix_flops;
  };
  EXPECT_EQ(postponed(), 0);
  c.schedule = Schedule::zero_bubble;
  const double weights = 4096.0 * (4096 + 2 * 1024 + 4096 + 3 * 14336);
  EXPECT_DOUBLE_EQ(postponed(), 8 * 2 * 8192 * weights);
}

}  // namespace
}  // namespace planwright::targets
