#include "estimator/spec/sharding.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "estimator/quantities.h"
#include "estimator/stage_script.h"
#include "estimator/unit_windows.h"
#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_llama;
using Bytes64 = std::vector<std::int64_t>;

/// Units of the tiny Llama kind on two ranks, by units, each tensor padded to 16 elements and each
/// unit to 32: 1200 → 1216; norms 32, qkv 1536, out 768, gate_up 1920, down 960: 5248; norm and
/// head 32 + 1200 = 1232 → 1248.
constexpr std::int64_t kEmbedding = 1216, kBlock = 5248, kHead = 1248;

/// Weights in fp32, of which bf16 copies are gathered; gradients made in bf16 and reduced in fp32.
Sharding narrow_units(Gathering gathering, std::int64_t reuse = 0) {
  return {.gathering = gathering,
          .gathered = DType::bf16,
          .reuse_elements = reuse,
          .by_unit = true,
          .buckets = true,
          .made = DType::bf16,
          .reduced = DType::fp32,
          .reduced_apart = true,
          .each_micro_batch = true};
}

TargetTraits traits_with(const Sharding& sharding) {
  TargetTraits traits = fake_traits();
  traits.axes.zero = {0, 1, 2, 3};
  traits.holdings.clear();
  traits.sharding = [sharding](const Problem&, const Candidate&) { return sharding; };
  return traits;
}

Problem two_ranks() {
  Problem problem = fake_problem(tiny_llama(), 2, Precision::fp32);
  problem.workload.recipe.compute = DType::bf16;
  return problem;
}

std::vector<UnitWindows> windows_with(const Sharding& sharding) {
  const Problem problem = two_ranks();
  const Candidate candidate = data_parallel(2, 3, 1);
  const ModelPart part = model_part(problem.model, candidate, 0);
  const FlatLayout trained = flat_layout(problem.model, part, 2, {.elements = 0, .by_unit = true});
  const FlatLayout frozen = frozen_layout(problem.model, part, 2);
  return windows_of(
      stage_step({problem, traits_with(sharding), candidate}, 0, part, trained, frozen));
}

TEST(FlatSharding, IsZeroAsTheStagesSay) {
  const Problem problem = fake_problem(tiny_llama(), 2, Precision::bf16);
  const auto at = [&](int zero) { return flat_sharding(problem, data_parallel(2, zero, 1)); };
  EXPECT_EQ(at(0).gathering, Gathering::none);
  EXPECT_EQ(at(1).gathering, Gathering::after_step);
  EXPECT_EQ(at(2).gathering, Gathering::after_step);
  EXPECT_EQ(at(3).gathering, Gathering::each_use);
  for (const int zero : {0, 1, 2, 3}) {
    EXPECT_EQ(at(zero).buckets, zero >= 2);
    EXPECT_EQ(at(zero).each_micro_batch, zero >= 2);
    EXPECT_EQ(at(zero).by_unit, zero == 3);
    EXPECT_EQ(at(zero).gathered, DType::bf16);
    EXPECT_EQ(at(zero).reduced, DType::fp32);
    EXPECT_FALSE(at(zero).reduced_apart);
  }
}

TEST(UnitWindows, GatherAnewForEachUseOrKeepUntilTheBackward) {
  const auto anew = windows_with(narrow_units(Gathering::each_use));
  const auto kept = windows_with(narrow_units(Gathering::each_micro_batch));
  ASSERT_EQ(anew.size(), 4u);
  ASSERT_EQ(kept.size(), 4u);
  const std::int64_t sizes[] = {kEmbedding, kBlock, kBlock, kHead};
  for (std::size_t unit = 0; unit < 4; ++unit) {
    const Bytes64 bytes{2 * sizes[unit]};
    EXPECT_EQ(anew[unit].gathered, bytes) << unit;
    EXPECT_TRUE(anew[unit].kept.empty()) << unit;
    EXPECT_EQ(kept[unit].kept, unit < 3 ? bytes : Bytes64{}) << unit;
    EXPECT_EQ(kept[unit].gathered, unit < 3 ? Bytes64{} : bytes) << "the head is used once";
  }
}

/// Between a unit's two uses those behind it are used twice: 2·(24 + 1200) elements for the last
/// block, 2·(5232 + 1224) for the first.
TEST(UnitWindows, KeepWhatIsUsedAgainSoon) {
  const auto kept = [](std::int64_t reuse) {
    const auto windows = windows_with(narrow_units(Gathering::each_use, reuse));
    return std::vector<bool>{!windows[0].kept.empty(), !windows[1].kept.empty(),
                             !windows[2].kept.empty()};
  };
  EXPECT_EQ(kept(2448), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(kept(2449), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(kept(12913), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(kept(1'000'000'000), (std::vector<bool>{true, true, true}));
}

TEST(UnitWindows, GatherATiedMatrixOnceWhereItIsKept) {
  Problem problem = two_ranks();
  problem.model.tied_embeddings = true;
  const Candidate candidate = data_parallel(2, 2, 1);
  const ModelPart part = model_part(problem.model, candidate, 0);
  const FlatLayout trained = flat_layout(problem.model, part, 2, {.elements = 0, .by_unit = true});
  const FlatLayout frozen = frozen_layout(problem.model, part, 2);
  const auto windows = windows_of(
      stage_step({problem, traits_with(narrow_units(Gathering::each_micro_batch)), candidate}, 0,
                 part, trained, frozen));
  EXPECT_EQ(windows[0].kept, Bytes64{2 * kEmbedding});
  EXPECT_EQ(windows[3].gathered, Bytes64{2 * 32}) << "the final norm alone";
}

TEST(UnitWindows, OpenInTheTypeThatIsMadeAndCompleteInTheOneThatIsReduced) {
  const auto windows = windows_with(narrow_units(Gathering::each_use));
  EXPECT_EQ(windows[1].opened, Bytes64{2 * kBlock});
  EXPECT_EQ(windows[1].completed, (std::vector<BucketBytes>{{2 * kBlock, 4 * kBlock}}));
}

const PhaseBytes& phase_of(const Quantities& q, Phase phase) {
  return q.stages.at(0).phases[static_cast<std::size_t>(phase)];
}

Ledger tensors_in(Phase phase, const Sharding& sharding, int global_batch = 2) {
  Problem problem = two_ranks();
  problem.workload.global_batch = global_batch;
  return phase_of(quantify(problem, traits_with(sharding), data_parallel(2, 3, 1)), phase).tensors;
}

/// While the loss is computed a stage has gathered its head, and ahead of it the last block; with
/// everything kept all of it.
TEST(StagePeaks, HaveWhatIsGathered) {
  EXPECT_EQ(tensors_in(Phase::loss, narrow_units(Gathering::each_use))[Account::parameters].value,
            2 * (kHead + kBlock));
  EXPECT_EQ(
      tensors_in(Phase::loss, narrow_units(Gathering::each_micro_batch))[Account::parameters].value,
      2 * (kEmbedding + 2 * kBlock + kHead));
  EXPECT_EQ(tensors_in(Phase::loss, narrow_units(Gathering::each_step))[Account::parameters].value,
            0)
      << "a holding of the target";
}

Sharding copied_out(Gathering gathering) {
  Sharding sharding = narrow_units(gathering);
  sharding.copies_out = true;
  return sharding;
}

/// The head is out of its unit when the loss comes, and the buffer of it is there.
TEST(StagePeaks, HaveTheBufferThatUnitsAreCopiedOutOf) {
  const auto at_loss = [](const Sharding& sharding) { return tensors_in(Phase::loss, sharding); };
  Sharding sharding = copied_out(Gathering::each_use);
  EXPECT_EQ(at_loss(sharding)[Account::parameters].value, 0);
  EXPECT_EQ(at_loss(sharding)[Account::communication].value, 2 * kHead);
  sharding.keeps_head = true;
  EXPECT_EQ(at_loss(sharding)[Account::parameters].value, 2 * kHead);
  EXPECT_EQ(at_loss(sharding)[Account::communication].value, 2 * kHead);
  sharding = copied_out(Gathering::each_micro_batch);
  EXPECT_EQ(at_loss(sharding)[Account::parameters].value, 2 * (kEmbedding + 2 * kBlock + kHead));
  EXPECT_EQ(at_loss(sharding)[Account::communication].value, 2 * kHead);
}

Sharding flat_parameters(Gathering gathering) {
  Sharding sharding = narrow_units(gathering);
  sharding.one_outer_unit = true;
  return sharding;
}

/// Parts, what they are put together in, and a copy of that in the type that is reduced; of the
/// head's the embedding's backward does it.
TEST(StagePeaks, HaveAFlatGradientBesideItsParts) {
  Problem problem = two_ranks();
  problem.workload.global_batch = 2;
  const Candidate candidate = data_parallel(2, 3, 1);
  const ModelPart part = model_part(problem.model, candidate, 0);
  const FlatLayout trained = flat_layout(problem.model, part, 2, {.elements = 0, .by_unit = true});
  const FlatLayout frozen = frozen_layout(problem.model, part, 2);
  Bytes64 made;
  for (const Instant& instant : stage_timeline(
           stage_step({problem, traits_with(flat_parameters(Gathering::each_use)), candidate}, 0,
                      part, trained, frozen))) {
    const bool counts = instant.account == Account::gradients && instant.bytes > 0;
    if (counts) made.push_back(instant.bytes);
  }
  constexpr std::int64_t kOuter = kEmbedding + kHead;
  EXPECT_EQ(made, (Bytes64{2 * kHead, 2 * kBlock, 2 * kBlock, 4 * kBlock, 2 * kBlock, 2 * kBlock,
                           4 * kBlock, 2 * kEmbedding, 2 * kOuter, 4 * kOuter}));
}

/// Nothing is left when a micro-batch has ended: a second one finds what the first one found.
TEST(StagePeaks, AreTheSameWithMoreMicroBatches) {
  for (const Gathering gathering : {Gathering::each_use, Gathering::each_micro_batch}) {
    for (const Sharding& sharding : {narrow_units(gathering), narrow_units(gathering, 2449),
                                     copied_out(gathering), flat_parameters(gathering)}) {
      for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward}) {
        EXPECT_EQ(tensors_in(phase, sharding, 2), tensors_in(phase, sharding, 16)) << word(phase);
      }
    }
  }
}

/// Of each backward, when the loss has been.
TEST(StagePeaks, HaveWhatComesWithGradientsFromTheFirstOneOn) {
  TargetTraits traits = traits_with({.made = DType::fp32, .reduced = DType::fp32});
  traits.holdings = {{.account = Account::communication,
                      .of = HoldingOf::step_counters,
                      .bytes_each = [](const PrecisionRecipe&) { return std::int64_t{1} << 30; },
                      .from = Phase::backward,
                      .to = Phase::backward,
                      .with_gradients = true}};
  for (const int micro_batches : {1, 4}) {
    Problem problem = two_ranks();
    problem.workload.global_batch = 2 * micro_batches;
    const Quantities q = quantify(problem, traits, data_parallel(2, 0, 1));
    for (const Phase phase : {Phase::load, Phase::forward, Phase::loss, Phase::reduce}) {
      EXPECT_EQ(phase_of(q, phase).tensors[Account::communication].value, 0) << word(phase);
    }
    EXPECT_EQ(phase_of(q, Phase::backward).tensors[Account::communication].value, 1 << 30);
  }
}

TargetTraits growing_traits() {
  TargetTraits traits = traits_with({.made = DType::fp32, .reduced = DType::fp32});
  traits.holdings = {{.account = Account::gradients,
                      .of = HoldingOf::trained,
                      .bytes_each = [](const PrecisionRecipe&) { return std::int64_t{4}; },
                      .from = Phase::backward,
                      .grows = true}};
  return traits;
}

std::int64_t gradients_in(Phase phase, int global_batch, Schedule schedule) {
  Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  problem.workload.global_batch = global_batch;
  Candidate candidate = data_parallel(1, 0, 1);
  candidate.schedule = schedule;
  return phase_of(quantify(problem, growing_traits(), candidate), phase)
      .tensors[Account::gradients]
      .value;
}

/// The head's product and norm have 1224 weights, and those are all when the logits are there.
TEST(GrowingGradients, AreMadeByTheFirstBackward) {
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
    EXPECT_EQ(gradients_in(Phase::forward, 1, schedule), 0);
    EXPECT_EQ(gradients_in(Phase::loss, 1, schedule), 0);
    EXPECT_EQ(gradients_in(Phase::reduce, 1, schedule), 4 * 12888);
    EXPECT_EQ(gradients_in(Phase::optimizer, 1, schedule), 4 * 12888);
  }
  EXPECT_EQ(gradients_in(Phase::loss, 2, Schedule::one_f_one_b), 4 * 12888)
      << "a second micro-batch finds them";
  EXPECT_EQ(gradients_in(Phase::loss, 8, Schedule::one_f_one_b), 4 * 12888);
}

/// With one micro-batch the peak is lower than with all gradients from the backward's beginning on.
TEST(GrowingGradients, AreLessThanAllWhileActivationsAreMost) {
  Problem problem = fake_problem(tiny_llama(), 1, Precision::fp32);
  problem.workload.global_batch = 1;
  TargetTraits whole = growing_traits();
  whole.holdings[0].grows = false;
  const Candidate candidate = data_parallel(1, 0, 1);
  const auto peak = [&](const TargetTraits& traits) {
    return largest_tensors(quantify(problem, traits, candidate).stages.at(0)).tensors.tensors();
  };
  EXPECT_LT(peak(growing_traits()), peak(whole));
}

struct MessageCase {
  const char* what;
  Sharding sharding;
  double gathered, each_micro_batch, each_step;  ///< bytes
};

/// Over NCCL: gathered elements are those of the units, in bf16; reduced ones the same in fp32.
TEST(DataMessages, AreOfTheTypesAndTimesOfTheSharding) {
  constexpr double kAll = kEmbedding + 2 * kBlock + kHead;
  // Every unit forwards, the blocks backwards too, and the head's stay between.
  constexpr double kUses = kAll + 2 * kBlock;
  Sharding once = narrow_units(Gathering::each_step);
  once.buckets = once.each_micro_batch = false;
  const MessageCase cases[] = {
      {"each use", narrow_units(Gathering::each_use), 2 * kUses, 4 * kAll, 0},
      {"each micro-batch", narrow_units(Gathering::each_micro_batch), 2 * kAll, 4 * kAll, 0},
      {"each step", once, 2 * kAll, 0, 4 * kAll},
  };
  for (const MessageCase& each : cases) {
    TargetTraits traits = traits_with(each.sharding);
    traits.transport = [](DeviceKind) { return Transport::nccl; };
    const Quantities q = quantify(two_ranks(), traits, data_parallel(2, 3, 1));
    const StageQuantities& stage = q.stages.at(0);
    const auto bytes = [](const std::vector<Messages>& all, Collective kind) {
      double sum = 0;
      for (const Messages& message : all) sum += message.collective == kind ? message.bytes : 0;
      return sum;
    };
    EXPECT_EQ(
        bytes(stage.beside, Collective::all_gather) + bytes(stage.messages, Collective::all_gather),
        each.gathered)
        << each.what;
    EXPECT_EQ(bytes(stage.beside, Collective::reduce_scatter), each.each_micro_batch) << each.what;
    EXPECT_EQ(bytes(stage.beside_last_backward, Collective::reduce_scatter), each.each_step)
        << each.what;
  }
}

}  // namespace
}  // namespace planwright::estimator
