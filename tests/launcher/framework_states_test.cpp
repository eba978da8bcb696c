#include "framework_states.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "estimator/quantities.h"
#include "estimator/spec/rules.h"
#include "launcher/targets/accelerate/traits.h"
#include "launcher/targets/deepspeed/traits.h"
#include "launcher/targets/fsdp/traits.h"
#include "launcher/targets/hf_trainer/traits.h"
#include "launcher/targets/torchtitan/traits.h"
#include "tests/support/fake_traits.h"

/// What each framework's holdings come to, against arithmetic that knows the shapes of a model and
/// the framework's rules, and no tensor of ours: that of tests/frameworks/observer_table.py, which
/// the real frameworks agree with.
namespace planwright::targets {
namespace {

struct Accounts {
  std::int64_t parameters, gradients, optimizer;
};

Accounts ddp(std::int64_t world) {
  const Sums s = sums_of(world);
  return {4 * s.elements, 4 * s.elements, 8 * s.elements + 4 * s.tensors};
}
Accounts fsdp2(std::int64_t world) {
  const Sums s = sums_of(world);
  return {4 * s.rows, 4 * s.rows, 8 * s.rows + 4 * s.tensors};
}
Accounts zero0(std::int64_t world) {
  const Sums s = sums_of(world);
  return {2 * s.elements, 6 * s.elements, 12 * s.elements + 4 * s.tensors};
}
Accounts zero12(std::int64_t world) {
  const Sums s = sums_of(world);
  return {2 * s.flat, 4 * s.flat / world, 12 * s.flat / world + 4};
}
Accounts zero1_fp32(std::int64_t world) {
  const Sums s = sums_of(world);
  return {2 * s.flat, 4 * s.flat + 2 * s.elements, 12 * s.flat / world + 4};
}
Accounts zero3(std::int64_t world) {
  const Sums s = sums_of(world);
  return {2 * s.parts, 6 * s.parts, 12 * s.parts + 4};
}

struct StateCase {
  const char* what;
  const TargetTraits& (*traits)();
  const char* engine;  ///< the knob's value; empty: its default
  int zero;
  Precision precision;
  Accounts (*expected)(std::int64_t world);
};

class FrameworkStates : public ::testing::TestWithParam<StateCase> {};

/// The instant is that of the observer's table: while the optimizer steps, what that makes and
/// drops apart. On CPU ranks.
TEST_P(FrameworkStates, AreWhatTheRealOneKeeps) {
  const StateCase& each = GetParam();
  for (const int world : {1, 2, 4}) {
    const Problem problem = problem_of(each.traits(), world, each.precision);
    Candidate candidate = candidate_of(world, each.zero);
    if (*each.engine != '\0') candidate.knobs = {{"engine", each.engine}};
    const Ledger held = ledger_at(Phase::optimizer, each.traits(), problem, candidate);
    const Accounts expected = each.expected(world);
    EXPECT_NEAR(held[Account::parameters].value, expected.parameters, kAllowed) << world;
    EXPECT_NEAR(held[Account::gradients].value, expected.gradients, kAllowed) << world;
    const Ledger loaded = ledger_at(Phase::load, each.traits(), problem, candidate);
    EXPECT_NEAR(loaded[Account::optimizer].value, expected.optimizer, kAllowed) << world;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Targets, FrameworkStates,
    ::testing::Values(StateCase{"Zero0", deepspeed::traits, "", 0, kBf16, zero0},
                      StateCase{"Zero1", deepspeed::traits, "", 1, kBf16, zero12},
                      StateCase{"Zero2", deepspeed::traits, "", 2, kBf16, zero12},
                      StateCase{"Zero3", deepspeed::traits, "", 3, kBf16, zero3},
                      StateCase{"Zero2Fp16", deepspeed::traits, "", 2, Precision::fp16, zero12},
                      StateCase{"TrainerDdp", hf_trainer::traits, "", 0, kFp32, ddp},
                      StateCase{"TrainerDdpBf16", hf_trainer::traits, "", 0, kBf16, ddp},
                      StateCase{"TrainerFsdp2", hf_trainer::traits, "", 2, kBf16, fsdp2},
                      StateCase{"TrainerFsdp3", hf_trainer::traits, "", 3, kBf16, fsdp2},
                      StateCase{"TrainerZero0", hf_trainer::traits, "deepspeed", 0, kBf16, zero0},
                      StateCase{"TrainerZero1", hf_trainer::traits, "deepspeed", 1, kBf16, zero12},
                      StateCase{"TrainerZero3", hf_trainer::traits, "deepspeed", 3, kBf16, zero3},
                      StateCase{"AccelerateDdp", accelerate::traits, "", 0, kFp32, ddp},
                      StateCase{"AccelerateFsdp2", accelerate::traits, "", 3, kFp32, fsdp2},
                      StateCase{"AccelerateFsdp1", accelerate::traits, "fsdp1", 3, kBf16, fsdp2},
                      StateCase{"AccelerateZero2", accelerate::traits, "deepspeed", 2, kBf16,
                                zero12},
                      StateCase{"FsdpDdp", fsdp::traits, "", 0, kBf16, ddp},
                      StateCase{"FsdpZero2", fsdp::traits, "", 2, kBf16, fsdp2},
                      StateCase{"FsdpZero3", fsdp::traits, "", 3, kFp32, fsdp2},
                      StateCase{"FsdpFlat", fsdp::traits, "fsdp1", 3, kBf16, fsdp2}),
    [](const auto& test) { return std::string(test.param.what); });

/// Two bytes of each matrix's elements but the table's, eight of the table's and of the norms'.
TEST(TrainerStates, OfAnOptimizerOf8BitsAreBytesButForTablesAndSmallTensors) {
  Problem problem = problem_of(hf_trainer::traits(), 1, kBf16);
  std::int64_t expected = 0;
  bool is_table = true;
  for (const Shape& shape : shapes()) {
    const bool wide = std::exchange(is_table, false) || product(shape) < 4096;
    expected += (wide ? 8 : 2) * product(shape);
  }
  for (const OptimizerKind kind : {OptimizerKind::adam8bit, OptimizerKind::paged_adam8bit}) {
    problem.workload.optimizer = kind;
    const Ledger loaded = ledger_at(Phase::load, hf_trainer::traits(), problem, candidate_of(1, 0));
    EXPECT_EQ(loaded[Account::optimizer].value, expected);
  }
  Candidate zero = candidate_of(2, 1);
  zero.knobs = {{"engine", "deepspeed"}};
  Problem refused = problem_of(hf_trainer::traits(), 2, kBf16);
  refused.workload.optimizer = OptimizerKind::adam8bit;
  EXPECT_EQ(broken_rule(refused, hf_trainer::traits(), zero)->name, "estimates_byte_states");
}

/// Beside its weights torchtitan has a table of complex numbers, 32·32 / 2 of 8 bytes.
TEST(TorchtitanStates, AreThoseOfFsdpAndATableOfPositions) {
  for (const int world : {1, 2, 4}) {
    const Problem problem = problem_of(torchtitan::traits(), world, kBf16);
    const Ledger held =
        ledger_at(Phase::optimizer, torchtitan::traits(), problem, candidate_of(world, 3));
    EXPECT_EQ(held[Account::parameters].value, fsdp2(world).parameters + 32 * 32 / 2 * 8);
    EXPECT_EQ(held[Account::gradients].value, fsdp2(world).gradients);
    EXPECT_EQ(held[Account::optimizer].value, fsdp2(world).optimizer);
  }
}

TEST(DeepspeedStates, SumInFp32OnlyWhereItIsAsked) {
  for (const int world : {1, 2, 4}) {
    Problem problem = problem_of(deepspeed::traits(), world, kBf16);
    problem.workload.recipe.gradient = DType::fp32;
    const Ledger held =
        ledger_at(Phase::optimizer, deepspeed::traits(), problem, candidate_of(world, 1));
    EXPECT_NEAR(held[Account::gradients].value, zero1_fp32(world).gradients, kAllowed);
  }
}

Ledger deepspeed_at(Phase phase, int zero,
                    const std::vector<std::pair<std::string, std::string>>& knobs = {}) {
  Candidate candidate = candidate_of(2, zero);
  candidate.knobs = knobs;
  return ledger_at(phase, deepspeed::traits(), problem_of(deepspeed::traits(), 2, kBf16),
                   candidate);
}

/// Elements, not bytes, from a backward's first gradient on; a second buffer where reduction runs
/// beside the backward; zero 3 has its one from the beginning on.
TEST(DeepspeedBuckets, AreBuffersOfAFixedSize) {
  using Knobs = std::vector<std::pair<std::string, std::string>>;
  const auto buffers = [](Phase phase, int zero, const Knobs& knobs = {}) {
    return deepspeed_at(phase, zero, knobs)[Account::communication].value;
  };
  constexpr std::int64_t kBytes = 2;
  for (const int zero : {1, 2}) {
    for (const Phase phase : {Phase::load, Phase::loss, Phase::reduce}) {
      EXPECT_EQ(buffers(phase, zero), 0);
    }
    EXPECT_EQ(buffers(Phase::backward, zero), kBytes * 500'000'000);
    EXPECT_EQ(buffers(Phase::backward, zero, {{"reduce_bucket_size", "50000000"}}),
              kBytes * 50'000'000);
    EXPECT_EQ(buffers(Phase::backward, zero, {{"overlap_comm", "on"}}), 2 * kBytes * 500'000'000);
  }
  EXPECT_EQ(buffers(Phase::load, 3), kBytes * 500'000'000);
  EXPECT_EQ(buffers(Phase::backward, 3, {{"overlap_comm", "on"}}), kBytes * 500'000'000);
}

/// Zero 1 has them from micro-batch to micro-batch, zero 2 makes them anew.
TEST(DeepspeedBuckets, OfZero1OutlastABackward) {
  Problem problem = problem_of(deepspeed::traits(), 2, kBf16);
  problem.workload.global_batch *= 2;
  for (const int zero : {1, 2}) {
    const Ledger held = ledger_at(Phase::loss, deepspeed::traits(), problem, candidate_of(2, zero));
    EXPECT_EQ(held[Account::communication].value, zero == 1 ? 2 * 500'000'000 : 0);
  }
}

/// What is in a full one is copied to be reduced, at zero 2 and 3; what does not fill it is when
/// the backward has ended.
TEST(DeepspeedBuckets, AreCopiedWhenTheyAreFull) {
  Problem problem = problem_of(deepspeed::traits(), 2, kBf16);
  problem.model.runs.front().count = 100;
  for (const int zero : {1, 2, 3}) {
    Candidate candidate = candidate_of(2, zero);
    candidate.knobs = {{"reduce_bucket_size", "50000000"}};
    const Ledger held = ledger_at(Phase::backward, deepspeed::traits(), problem, candidate);
    EXPECT_EQ(held[Account::communication].value, (zero == 1 ? 1 : 2) * 2 * 50'000'000) << zero;
  }
}

/// The fused wrapper, on GPUs, has the 16-bit gradients, each in fp32 and all of them as one buffer
/// at once, and then the last only.
TEST(DeepspeedStates, AtZero0AreMostWhenGradientsAreFlattened) {
  Problem problem = problem_of(deepspeed::traits(), 2, kBf16);
  problem.cluster.device.kind = DeviceKind::cuda;
  const Candidate candidate = candidate_of(2, 0);
  const std::int64_t n = sums_of(2).elements;
  EXPECT_EQ(
      ledger_at(Phase::reduce, deepspeed::traits(), problem, candidate)[Account::gradients].value,
      (2 + 4 + 4) * n);
  EXPECT_EQ(ledger_at(Phase::optimizer, deepspeed::traits(), problem, candidate)[Account::gradients]
                .value,
            4 * n);
}

/// With fp32 there is a copy of the own part at zero 1 and 2, and none at 0 and 3.
TEST(DeepspeedStates, OfFp32HaveMastersWhereTheStatesAreFlat) {
  const Problem problem = problem_of(deepspeed::traits(), 2, kFp32);
  const Sums s = sums_of(2);
  const std::int64_t expected[] = {8 * s.elements + 4 * s.tensors, 12 * s.flat / 2 + 4,
                                   12 * s.flat / 2 + 4, 8 * s.parts + 4};
  for (const int zero : {0, 1, 2, 3}) {
    const Ledger held =
        ledger_at(Phase::optimizer, deepspeed::traits(), problem, candidate_of(2, zero));
    const Ledger loaded =
        ledger_at(Phase::load, deepspeed::traits(), problem, candidate_of(2, zero));
    EXPECT_NEAR(loaded[Account::optimizer].value, expected[zero], kAllowed) << zero;
    EXPECT_NEAR(held[Account::gradients].value,
                zero == 0 ? 4 * s.elements : 4 * (zero == 3 ? s.parts * 2 : s.flat / 2), kAllowed)
        << zero;
  }
}

/// Of this model everything is within a thousand million elements of its next use.
TEST(DeepspeedGathering, KeepsWhatIsUsedAgainSoonAndSmallTensorsAlways) {
  const Sums s = sums_of(2);
  const std::int64_t gathered =
      deepspeed_at(Phase::loss, 3)[Account::parameters].value - 2 * s.parts;
  const std::int64_t small = 4 * (2 * 256 + 2 * 256 * 256 + 2 * 128 * 256) + 256;
  EXPECT_NEAR(gathered, 2 * s.elements + 2 * small, 4096);
  EXPECT_EQ(deepspeed_at(Phase::load, 3)[Account::parameters].value, 2 * s.parts + 2 * small);
}

/// DDP's buckets are gradients once more; one rank has no DDP, but of the Trainer's on a CPU.
TEST(TorchStates, OfReplicasHaveBucketsBesideTheGradients) {
  for (const auto traits : {hf_trainer::traits, accelerate::traits, fsdp::traits}) {
    const auto buckets = [&](int world, int zero, DeviceKind kind = DeviceKind::cpu) {
      Problem problem = problem_of(traits(), world, kFp32);
      problem.cluster.device.kind = kind;
      return ledger_at(Phase::load, traits(), problem,
                       candidate_of(world, zero))[Account::communication]
          .value;
    };
    EXPECT_EQ(buckets(2, 0), 4 * sums_of(2).elements);
    EXPECT_EQ(buckets(1, 0), traits == hf_trainer::traits ? buckets(2, 0) : 0);
    EXPECT_EQ(buckets(1, 0, DeviceKind::cuda), 0);
    EXPECT_EQ(buckets(2, 3), 0);
  }
}

/// autocast multiplies copies of the matrices: all but the embedding and the norms.
TEST(TorchStates, UnderAutocastHaveNarrowCopiesFromForwardToBackward) {
  const Problem problem = problem_of(hf_trainer::traits(), 2, kBf16);
  Candidate candidate = candidate_of(2, 0);
  const std::int64_t copies = 2 * (sums_of(2).elements - 4608 * 256 - 9 * 256);
  const auto beside = [&](Phase phase) {
    return ledger_at(phase, hf_trainer::traits(), problem, candidate)[Account::parameters].value -
           ddp(2).parameters;
  };
  EXPECT_EQ(beside(Phase::load), 0);
  EXPECT_EQ(beside(Phase::forward), copies);
  EXPECT_EQ(beside(Phase::backward), copies);
  EXPECT_EQ(beside(Phase::optimizer), 0);
  candidate.recompute.kind = RecomputeKind::full;
  EXPECT_EQ(beside(Phase::loss), copies);
  EXPECT_EQ(beside(Phase::backward), 0) << "made again block by block";
}

std::int64_t stepping(const TargetTraits& traits, int zero, DeviceKind kind) {
  Problem problem = problem_of(traits, 2, kBf16);
  problem.cluster.device.kind = kind;
  const Candidate candidate = candidate_of(2, zero);
  return (ledger_at(Phase::optimizer, traits, problem, candidate)[Account::optimizer] -
          ledger_at(Phase::load, traits, problem, candidate)[Account::optimizer])
      .value;
}

/// torch's AdamW makes a denominator and a copy of it for one tensor after the other, on GPUs a
/// denominator of all at once; fused it makes none. DeepSpeed's own kernel makes
/// none either, and torch's, on CPUs, takes its flat part as one tensor.
TEST(StepsOfAdamW, MakeDenominators) {
  const std::int64_t largest = 4 * 4608 * 256, n = sums_of(2).elements;
  EXPECT_EQ(stepping(fsdp::traits(), 0, DeviceKind::cpu), 2 * largest);
  EXPECT_EQ(stepping(fsdp::traits(), 3, DeviceKind::cpu), 2 * largest / 2);
  EXPECT_EQ(stepping(fsdp::traits(), 3, DeviceKind::cuda), 4 * n / 2);
  EXPECT_EQ(stepping(accelerate::traits(), 0, DeviceKind::cuda), 4 * n);
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda}) {
    EXPECT_EQ(stepping(hf_trainer::traits(), 0, kind), 0);
    EXPECT_EQ(stepping(torchtitan::traits(), 3, kind), 0);
  }
  EXPECT_EQ(stepping(deepspeed::traits(), 0, DeviceKind::cpu), 2 * largest);
  EXPECT_EQ(stepping(deepspeed::traits(), 2, DeviceKind::cpu), 2 * 4 * n / 2);
  EXPECT_EQ(stepping(deepspeed::traits(), 3, DeviceKind::cuda), 0);
}

/// Norm and head are resharded like all others, and until the loss is there in the buffer that they
/// were gathered through; torchtitan leaves them gathered. A rank that is alone has no buffer.
TEST(TorchStates, AtZero3AreGatheredWhileTheirUnitIsAtWork) {
  constexpr std::int64_t kHead = 2 * (4608 * 256 + 256);
  const auto at_loss = [](const TargetTraits& traits, int world) {
    const Problem problem = problem_of(traits, world, kBf16);
    return ledger_at(Phase::loss, traits, problem, candidate_of(world, 3));
  };
  const Ledger resharded = at_loss(fsdp::traits(), 2);
  EXPECT_EQ(resharded[Account::parameters].value, fsdp2(2).parameters);
  EXPECT_EQ(resharded[Account::communication].value, kHead);
  const Ledger kept = at_loss(torchtitan::traits(), 2);
  EXPECT_EQ(kept[Account::parameters].value, fsdp2(2).parameters + 32 * 32 / 2 * 8 + kHead);
  EXPECT_EQ(kept[Account::communication].value, kHead);
  EXPECT_EQ(at_loss(fsdp::traits(), 1)[Account::communication].value, 0);
}

/// At zero 2 all weights are there, in the type that is computed in, when the loss is, and norm and
/// head also in the buffer that they were gathered through.
TEST(TorchStates, AtZero2AreGatheredFromForwardToBackward) {
  const Problem problem = problem_of(fsdp::traits(), 2, kBf16);
  const Ledger held = ledger_at(Phase::loss, fsdp::traits(), problem, candidate_of(2, 2));
  EXPECT_NEAR(held[Account::parameters].value, fsdp2(2).parameters + 2 * sums_of(2).elements, 4096);
  EXPECT_EQ(held[Account::communication].value, 2 * (4608 * 256 + 256));
}

/// Hugging Face's no_sync leaves whole gradients on every rank, in the type that is computed in.
TEST(TorchStates, OfSeveralMicroBatchesDeferReductionUnderAccelerate) {
  const std::int64_t whole = 2 * sums_of(2).elements;
  const auto in_loss = [](const TargetTraits& traits, int micro_batch) {
    return ledger_at(Phase::loss, traits, problem_of(traits, 2, kBf16),
                     candidate_of(2, 3, micro_batch))[Account::gradients]
        .value;
  };
  EXPECT_EQ(in_loss(accelerate::traits(), 4), 0) << "one micro-batch";
  EXPECT_EQ(in_loss(accelerate::traits(), 1), whole);
  EXPECT_EQ(in_loss(hf_trainer::traits(), 2), whole);
  EXPECT_EQ(in_loss(fsdp::traits(), 1), fsdp2(2).gradients) << "reduced in each";
  EXPECT_EQ(in_loss(torchtitan::traits(), 1), fsdp2(2).gradients);
}

/// The stages of torch's pipelines reduce once: gradients are whole, in fp32, until the last, and
/// so are weights that nothing reshards.
TEST(TorchStates, OfStagesAreWholeUntilTheEnd) {
  Problem problem = problem_of(torchtitan::traits(), 4, kBf16);
  Candidate candidate = candidate_of(2, 2, 1);
  candidate.pp = 2;
  const auto q = estimator::quantify(problem, torchtitan::traits(), candidate);
  const Sums s = sums_of(2);
  const std::int64_t first = s.elements / 2;  // the halves differ by the final norm
  for (const estimator::StageQuantities& stage : q.stages) {
    const Ledger& backward = stage.phases[static_cast<std::size_t>(Phase::backward)].tensors;
    EXPECT_NEAR(backward[Account::gradients].value, 4 * first, 4 * 256);
    EXPECT_NEAR(backward[Account::parameters].value, 4 * first / 2 + 2 * first, 8 * 1024);
  }
}

}  // namespace
}  // namespace planwright::targets
