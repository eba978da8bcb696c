#include "estimator/quantities.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "estimator/devices.h"
#include "estimator/models.h"
#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_gpt;
using testing::tiny_llama;

const StageQuantities& only_stage(const Quantities& q) {
  EXPECT_EQ(q.stages.size(), 1u);
  return q.stages.front();
}

const PhaseBytes& phase_of(const Quantities& q, Phase phase) {
  return only_stage(q).phases[static_cast<std::size_t>(phase)];
}

struct LedgerCase {
  const char* what;
  ModelSpec model;
  Precision precision;
  int dp, zero;
  std::int64_t parameters, gradients, optimizer;
};

/// The tiny Llama kind has, each tensor rounded up to 16 elements (48·24 = 1152 …):
///   embedding and head 50·24 = 1200 each, norms 24 → 32 (5 of them: 160), and per block
///   qkv 64·24 = 1536, out 24·32 = 768, gate_up 80·24 = 1920, down 24·40 = 960: 5184.
/// In all 2400 + 160 + 2·5184 = 12928. A bucket closes at 4096 elements, counted backwards from the
/// end: head 1200, final norm 32, down 960, gate_up 1920: 4112, closed; norm2 32, out 768, qkv
/// 1536, norm1 32, down 960, gate_up 1920: 5248, closed; norm2 32, out 768, qkv 1536, norm1 32,
/// embedding 1200: 3568, the rest. With one rank nothing is padded further: 12928. With two they
/// grow to multiples of 32: 4128, 5248, 3584 = 12960. With three, of 48: 4128, 5280, 3600 = 13008.
/// The tables of rotary positions are 16·8 = 128 elements in fp32 (512 bytes), in fp64 1024 bytes.
/// AdamW has two moments and a counter of 4 bytes.
TEST(StateLedger, AddsUpAsDerivedByHand) {
  const LedgerCase cases[] = {
      {"fp32", tiny_llama(), Precision::fp32, 1, 0, 4 * 12928 + 512, 4 * 12928, 8 * 12928 + 4},
      {"fp64", tiny_llama(), Precision::fp64, 1, 0, 8 * 12928 + 1024, 8 * 12928, 16 * 12928 + 4},
      {"bf16", tiny_llama(), Precision::bf16, 1, 0, 2 * 12928 + 512, 4 * 12928, 12 * 12928 + 4},
      {"replicas are not padded for the ranks", tiny_llama(), Precision::bf16, 3, 0,
       2 * 12928 + 512, 4 * 12928, 12 * 12928 + 4},
      {"two shards", tiny_llama(), Precision::bf16, 2, 1, 2 * 12960 + 512, 4 * 12960,
       12 * 12960 / 2 + 4},
      {"three shards, of fp32", tiny_llama(), Precision::fp32, 3, 1, 4 * 13008 + 512, 4 * 13008,
       8 * 13008 / 3 + 4},
  };
  for (const LedgerCase& each : cases) {
    const Problem problem = fake_problem(each.model, each.dp, each.precision);
    const Quantities q = quantify(problem, fake_traits(), data_parallel(each.dp, each.zero, 1));
    for (const Ledger& ledger : {only_stage(q).loaded, phase_of(q, Phase::optimizer).tensors}) {
      EXPECT_EQ(ledger[Account::parameters].value, each.parameters) << each.what;
      EXPECT_EQ(ledger[Account::gradients].value, each.gradients) << each.what;
      EXPECT_EQ(ledger[Account::optimizer].value, each.optimizer) << each.what;
      EXPECT_EQ(ledger.allocated().value, each.parameters + each.gradients + each.optimizer);
    }
  }
}

TEST(StateLedger, HasNoMomentsUnderSgdAndNoTablesWithLearnedPositions) {
  Problem problem = fake_problem(tiny_gpt(), 1, Precision::fp32);
  problem.workload.optimizer = OptimizerKind::sgd;
  const Quantities q = quantify(problem, fake_traits(), data_parallel(1, 0, 1));
  EXPECT_EQ(only_stage(q).loaded[Account::optimizer], Bytes{});
  EXPECT_EQ(only_stage(q).loaded[Account::parameters], only_stage(q).loaded[Account::gradients]);
}

/// Embedding and head 50 + 24 each, five norms of 24, and per block qkv 64 + 24, out 24 + 32,
/// gate_up 80 + 24, down 24 + 40: 148 + 120 + 2·312 = 892 statistics in place of 12928 moments.
TEST(StateLedger, HasRowsAndColumnsInPlaceOfFactoredMoments) {
  TargetTraits traits = fake_traits();
  traits.holdings[4].of = HoldingOf::factored_moments;
  traits.holdings[4].copies = 1;
  const Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  const Quantities q = quantify(problem, traits, data_parallel(1, 0, 1));
  EXPECT_EQ(only_stage(q).loaded[Account::optimizer].value, 4 * 892 + 4);
}

/// A holding that lives in some phases only is counted in those.
TEST(StateLedger, KeepsAHoldingToItsPhases) {
  TargetTraits traits = fake_traits();
  traits.holdings[3].from = Phase::optimizer;  // the master weights
  const Problem problem = fake_problem(tiny_llama(), 1, Precision::bf16);
  const Quantities q = quantify(problem, traits, data_parallel(1, 0, 1));
  EXPECT_EQ(only_stage(q).loaded[Account::optimizer].value, 8 * 12928 + 4);
  EXPECT_EQ(phase_of(q, Phase::backward).tensors[Account::optimizer].value, 8 * 12928 + 4);
  EXPECT_EQ(phase_of(q, Phase::optimizer).tensors[Account::optimizer].value, 12 * 12928 + 4);
}

/// Llama 2 7B: every tensor is a multiple of 4096 elements, so nothing is padded.
/// 18 bytes a parameter without ZeRO; with ZeRO 1 over 8 ranks 2 + 4 + 12 / 8. Beside them the
/// rotary tables, 4·2048·128 bytes, and the counter.
TEST(StateLedger, OfASevenBillionModelIsWhatEveryoneKnows) {
  const std::int64_t n = 6738415616;
  Problem problem = fake_problem(find_model("llama-2-7b", "", "--model"), 8, Precision::bf16);
  problem.cluster = preset_cluster(find_device("A100-80GB", "", "--device"), 8, 8);
  problem.workload.seq = 2048;
  problem.workload.global_batch = 64;
  QuantityTable table(problem, fake_traits(25'000'000));
  const std::int64_t beside = 4 * 2048 * 128 + 4;
  EXPECT_EQ(table.quantify(data_parallel(8, 0, 1)).stages[0].loaded.allocated().value,
            18 * n + beside);
  EXPECT_EQ(table.quantify(data_parallel(8, 1, 1)).stages[0].loaded.allocated().value,
            6 * n + 12 * n / 8 + beside);
}

/// fp32, all of a micro-batch's peak (47296, derived in step_script_test.cpp) on top of the states.
TEST(PhaseLedger, IsTheStatesPlusTheMicroBatchsPeak) {
  const Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  const Quantities q = quantify(problem, fake_traits(), data_parallel(1, 0, 1));
  const Ledger& loaded = only_stage(q).loaded;
  EXPECT_EQ((phase_of(q, Phase::backward).tensors.allocated() - loaded.allocated()).value, 47296);
  EXPECT_EQ(phase_of(q, Phase::backward).tensors[Account::logits].value, 3200);
  EXPECT_EQ(phase_of(q, Phase::reduce).tensors, loaded);
}

TEST(PhaseLedger, AnAcceleratorsLibraryScratchIsThereInEveryPhaseButLoad) {
  Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  problem.cluster.device.kind = DeviceKind::cuda;
  const Quantities q = quantify(problem, fake_traits(), data_parallel(1, 0, 1));
  for (const PhaseBytes& phase : only_stage(q).phases) {
    EXPECT_EQ(phase.product.has_value(), phase.phase != Phase::load);
  }
}

/// Those of a step, beside the last backward first.
std::vector<Messages> step_messages(const Problem& problem, const Candidate& candidate) {
  const Quantities q = quantify(problem, fake_traits(), candidate);
  std::vector<Messages> all = only_stage(q).beside_last_backward;
  const auto& after = only_stage(q).messages;
  all.insert(all.end(), after.begin(), after.end());
  return all;
}

/// fp32 with three buckets: one all-reduce each of the 4·12928 bytes of gradients. ZeRO 1 over gloo
/// still reduces with all-reduces, of the padded 4·12960 bytes, and sends 2·3 broadcasts; over NCCL
/// it scatters and gathers.
TEST(Messages, FollowTheTransport) {
  Problem problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  const auto messages = [&](int zero) { return step_messages(problem, data_parallel(2, zero, 1)); };
  ASSERT_EQ(messages(0).size(), 1u);
  EXPECT_EQ(messages(0)[0].collective, Collective::all_reduce);
  EXPECT_EQ(messages(0)[0].count, 3);
  EXPECT_EQ(messages(0)[0].bytes, 4 * 12928);
  ASSERT_EQ(messages(1).size(), 2u);
  EXPECT_EQ(messages(1)[0].collective, Collective::all_reduce);
  EXPECT_EQ(messages(1)[0].bytes, 4 * 12960);
  EXPECT_EQ(messages(1)[1].collective, Collective::broadcast);
  EXPECT_EQ(messages(1)[1].count, 6);
  EXPECT_EQ(messages(1)[1].bytes, 4 * 12960);

  problem.cluster.device.kind = DeviceKind::cuda;
  ASSERT_EQ(messages(1).size(), 2u);
  EXPECT_EQ(messages(1)[0].collective, Collective::reduce_scatter);
  EXPECT_EQ(messages(1)[1].collective, Collective::all_gather);
  EXPECT_EQ(messages(1)[1].count, 3);
}

TEST(Messages, WithALossScaleAgreeInOneScalar) {
  const Problem problem = fake_problem(tiny_llama(), 2, Precision::fp16);
  const auto messages = step_messages(problem, data_parallel(2, 0, 1));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].collective, Collective::all_reduce);
  EXPECT_EQ(messages[1].count, 1);
  EXPECT_EQ(messages[1].bytes, 4);
}

TEST(Messages, OfOneRankAreNone) {
  const Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  EXPECT_TRUE(step_messages(problem, data_parallel(1, 1, 1)).empty());
}

TEST(Messages, UseTheInnermostLinkThatSpansTheRanks) {
  Problem problem = fake_problem(tiny_llama(), 4, Precision::fp32);
  problem.cluster.links.insert(problem.cluster.links.begin(),
                               {"inner", BytesPerSecond{1e10}, Seconds{1e-6}, 2});
  problem.cluster.links.back().span = 4;
  EXPECT_EQ(step_messages(problem, data_parallel(2, 0, 1))[0].link, 0);
  EXPECT_EQ(step_messages(problem, data_parallel(4, 0, 1))[0].link, 1);
}

/// Bytes per owned parameter: gradient, weight read and written, two moments read and written; in
/// bf16 the master weight is read once more and stored in two bytes. SGD and Lion have one moment;
/// Adafactor reads the gradient four times and the weight twice; fp16 gradients are looked at
/// first.
TEST(OptimizerBytes, CountReadsAndWritesOfWhatARankOwns) {
  const auto bytes = [](Precision precision, int dp, int zero, OptimizerKind kind) {
    Problem problem = fake_problem(tiny_llama(), dp, precision);
    problem.workload.optimizer = kind;
    return quantify(problem, fake_traits(), data_parallel(dp, zero, 1))
        .stages.front()
        .optimizer_bytes;
  };
  EXPECT_EQ(bytes(Precision::fp32, 1, 0, OptimizerKind::adamw), 12928 * (4 + 8 + 16));
  EXPECT_EQ(bytes(Precision::bf16, 1, 0, OptimizerKind::adamw), 12928 * (4 + 8 + 16 + 4 + 2));
  EXPECT_EQ(bytes(Precision::fp32, 1, 0, OptimizerKind::sgd), 12928 * (4 + 8 + 8));
  EXPECT_EQ(bytes(Precision::fp32, 1, 0, OptimizerKind::lion), 12928 * (4 + 8 + 8));
  EXPECT_EQ(bytes(Precision::fp32, 1, 0, OptimizerKind::adafactor), 12928 * (4 * 4 + 3 * 4));
  EXPECT_EQ(bytes(Precision::fp16, 1, 0, OptimizerKind::adamw), 12928 * (3 * 4 + 8 + 16 + 4 + 2));
  EXPECT_EQ(bytes(Precision::fp32, 2, 1, OptimizerKind::adamw), 12960 / 2 * (4 + 8 + 16));
}

TEST(Step, AccumulatesWhatTheGlobalBatchLeavesToARank) {
  Problem problem = fake_problem(tiny_llama(), 2, Precision::fp32);  // 8 sequences of 16 tokens
  const Quantities q = quantify(problem, fake_traits(), data_parallel(2, 0, 2));
  EXPECT_EQ(q.micro_batches, 2);
  EXPECT_EQ(q.tokens, 32);
}

/// PaLM's 6 N + 12 L a s per token: N = 12888, 2 layers, a = 32, s = 16; 8·16 tokens over 2 ranks.
TEST(Step, ModelFlopsFollowThePalmConvention) {
  const Problem problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  ASSERT_EQ(parameter_counts(problem.model).total, 12888);
  const Quantities q = quantify(problem, fake_traits(), data_parallel(2, 0, 2));
  EXPECT_DOUBLE_EQ(q.model_flops, 64.0 * (6 * 12888 + 12 * 2 * 32 * 16));
}

TEST(QuantityTable, GivesTheSameAsOneCandidateAlone) {
  const Problem problem = fake_problem(tiny_gpt(), 2, Precision::bf16);
  QuantityTable table(problem, fake_traits());
  for (int round = 0; round < 2; ++round) {
    for (const int zero : {0, 1}) {
      for (const int micro_batch : {1, 2, 4}) {
        for (const RecomputeKind recompute : {RecomputeKind::none, RecomputeKind::full}) {
          const Candidate candidate = data_parallel(2, zero, micro_batch, recompute);
          const Quantities fresh = quantify(problem, fake_traits(), candidate);
          const Quantities again = table.quantify(candidate);
          const StageQuantities& alone = only_stage(fresh);
          const StageQuantities& kept = only_stage(again);
          EXPECT_EQ(alone.loaded, kept.loaded);
          EXPECT_EQ(alone.forward.matrix_flops, kept.forward.matrix_flops);
          EXPECT_EQ(alone.recompute.bytes, kept.recompute.bytes);
          for (std::size_t i = 0; i < alone.phases.size(); ++i) {
            EXPECT_EQ(alone.phases[i].kernels, kept.phases[i].kernels);
          }
        }
      }
    }
  }
}

TEST(QuantityTable, RefusesWhatItsScriptsDoNotExpress) {
  const Problem problem = fake_problem(tiny_gpt(), 2, Precision::bf16);
  std::vector<Candidate> inexpressible(5, data_parallel(2, 0, 1));
  inexpressible[0].cp = 2;
  inexpressible[1].schedule = Schedule::zero_bubble;
  inexpressible[2].recompute.kind = RecomputeKind::op;
  inexpressible[3].recompute = {RecomputeKind::selective, 0, {"mlp"}};
  inexpressible[4].offload.activations = true;
  for (const Candidate& candidate : inexpressible) {
    EXPECT_THROW(quantify(problem, fake_traits(), candidate), std::logic_error)
        << describe(candidate);
  }
}

/// Under a reentrant checkpoint a block is a forward again; torch's other one leaves its last
/// product out.
TEST(QuantityTable, BlocksAreMadeAgainToTheirEndUnderAReentrantCheckpoint) {
  TargetTraits traits = fake_traits();
  const Problem problem = fake_problem(tiny_llama(), 2, Precision::bf16);
  const Candidate full = data_parallel(2, 0, 1, RecomputeKind::full);
  const auto left_out = [&](KernelSet kernels) {
    traits.kernels = [kernels](DeviceKind) { return kernels; };
    const StageQuantities stage = only_stage(quantify(problem, traits, full));
    return stage.forward.matrix_flops - stage.recompute.matrix_flops;
  };
  EXPECT_EQ(left_out(KernelSet::transformer_engine), 0);
  EXPECT_EQ(left_out(KernelSet::torch_modules), 2 * (2.0 * 16 * 24 * 40));
}

TEST(QuantityTable, HasSavedOperatorsInTorchsModulesAlone) {
  TargetTraits traits = fake_traits();
  traits.kernels = [](DeviceKind) { return KernelSet::torch_modules; };
  const Problem problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  Candidate candidate = data_parallel(2, 0, 1);
  QuantityTable table(problem, traits);
  const auto work = [&](RecomputeKind kind) {
    candidate.recompute.kind = kind;
    return only_stage(table.quantify(candidate)).recompute.matrix_flops;
  };
  EXPECT_EQ(work(RecomputeKind::none), 0);
  EXPECT_LT(work(RecomputeKind::op), work(RecomputeKind::full));
}

}  // namespace
}  // namespace planwright::estimator
