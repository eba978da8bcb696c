#include <gtest/gtest.h>

#include <algorithm>

#include "estimator/models.h"
#include "estimator/quantities.h"
#include "launcher/targets/deepspeed/traits.h"
#include "launcher/targets/fsdp/traits.h"
#include "launcher/targets/hf_trainer/traits.h"
#include "tests/support/fake_traits.h"

/// Peaks of steady steps of the real frameworks, as tests/frameworks/witness_table.py had them on
/// CPU ranks: torch 2.11.0, transformers 5.23.0, DeepSpeed 0.19.8, peft 0.21.2.
namespace planwright::targets {
namespace {

struct Witness {
  const char* what;
  const TargetTraits& (*traits)();
  int zero;
  Precision precision;
  RecomputeKind recompute;
  int micro_batches;
  std::vector<std::pair<std::string, std::string>> knobs;
  std::int64_t peak;
  int ranks = 2;
};

constexpr int kSequences = 4;

Problem problem_of(const Witness& witness) {
  const TargetTraits& traits = witness.traits();
  Problem problem = testing::fake_problem(testing::tiny_llama(), witness.ranks, Precision::fp32);
  problem.model =
      estimator::find_model(PLANWRIGHT_SOURCE_DIR "/tests/data/witness_model/config.json", "", "");
  problem.workload.seq = 256;
  problem.workload.global_batch = kSequences * witness.ranks * witness.micro_batches;
  problem.workload.precision = witness.precision;
  problem.workload.recipe = traits.recipe(witness.precision).value();
  problem.target = traits.name;
  problem.target_version = traits.version;
  return problem;
}

Candidate candidate_of(const Witness& witness) {
  Candidate candidate = testing::data_parallel(witness.ranks, witness.zero, kSequences);
  candidate.recompute.kind = witness.recompute;
  candidate.knobs = witness.knobs;
  return candidate;
}

class Witnesses : public ::testing::TestWithParam<Witness> {};

TEST_P(Witnesses, HadThePeakThatTheLedgerSays) {
  const auto q =
      estimator::quantify(problem_of(GetParam()), GetParam().traits(), candidate_of(GetParam()));
  Bytes peak;
  for (const auto& phase : q.stages.at(0).phases) {
    peak = std::max(peak, phase.kernels.allocated());
  }
  const auto measured = static_cast<double>(GetParam().peak);
  EXPECT_NEAR(static_cast<double>(peak.value), measured, 0.02 * measured);
}

constexpr Precision kFp32 = Precision::fp32, kBf16 = Precision::bf16;
constexpr RecomputeKind kNone = RecomputeKind::none, kFull = RecomputeKind::full;

INSTANTIATE_TEST_SUITE_P(
    OnTwoRanks, Witnesses,
    ::testing::Values(
        Witness{"Ddp", fsdp::traits, 0, kBf16, kNone, 1, {}, 153'509'668},
        Witness{"DdpRecomputed", fsdp::traits, 0, kBf16, kFull, 1, {}, 98'328'132},
        Witness{"FullyShard2", fsdp::traits, 2, kFp32, kNone, 1, {}, 150'430'508},
        Witness{"FullyShard3", fsdp::traits, 3, kBf16, kNone, 1, {}, 96'268'076},
        Witness{"FullyShard3Recomputed", fsdp::traits, 3, kBf16, kFull, 1, {}, 52'512'300},
        Witness{"FullyShard3Twice", fsdp::traits, 3, kBf16, kNone, 2, {}, 104'147'244},
        Witness{"Fsdp1", fsdp::traits, 3, kBf16, kNone, 1, {{"engine", "fsdp1"}}, 98'304'224},
        Witness{"Fsdp1Twice", fsdp::traits, 3, kBf16, kNone, 2, {{"engine", "fsdp1"}}, 106'178'272},
        Witness{"Zero0", deepspeed::traits, 0, kBf16, kNone, 1, {}, 127'748'904},
        Witness{"Zero1",
                deepspeed::traits,
                1,
                kBf16,
                kNone,
                1,
                {{"reduce_bucket_size", "50000000"}},
                184'730'008},
        Witness{"Zero1Twice",
                deepspeed::traits,
                1,
                kBf16,
                kNone,
                2,
                {{"reduce_bucket_size", "50000000"}},
                212'000'664},
        Witness{"Zero3",
                deepspeed::traits,
                3,
                kBf16,
                kNone,
                1,
                {{"reduce_bucket_size", "50000000"}},
                212'000'670},
        Witness{"TrainerTwice", hf_trainer::traits, 0, kBf16, kNone, 2, {}, 169'323'648},
        Witness{"TrainerRecomputed", hf_trainer::traits, 0, kBf16, kFull, 1, {}, 98'369'128}),
    [](const auto& test) { return std::string(test.param.what); });

INSTANTIATE_TEST_SUITE_P(
    OnOneRank, Witnesses,
    ::testing::Values(
        Witness{"Zero3GathersNothing",
                deepspeed::traits,
                3,
                kBf16,
                kNone,
                1,
                {{"reduce_bucket_size", "50000000"}},
                235'622'814,
                1},
        Witness{"TrainerIsReplicated", hf_trainer::traits, 0, kFp32, kNone, 1, {}, 174'076'544, 1},
        Witness{"TrainerOfBf16IsReplicated",
                hf_trainer::traits,
                0,
                kBf16,
                kNone,
                1,
                {},
                153'559'168,
                1}),
    [](const auto& test) { return std::string(test.param.what); });

}  // namespace
}  // namespace planwright::targets
