#include <gtest/gtest.h>

#include <cstdint>

#include "estimator/calibrate.h"
#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/price.h"
#include "estimator/quantities.h"
#include "estimator/spec/rules.h"
#include "launcher/targets/deepspeed/traits.h"
#include "launcher/targets/fsdp/traits.h"
#include "launcher/targets/hf_trainer/traits.h"
#include "launcher/targets/megatron/traits.h"
#include "tests/support/fake_traits.h"

/// Activations that leave the device, against arithmetic over Llama 2 7B with sequences of 32768.
namespace planwright::targets {
namespace {

constexpr std::int64_t kSeq = 32768, kHidden = 4096, kLayers = 32, kVocab = 32000;
/// What goes from block to block in bf16: 2 h T bytes, a power of two.
constexpr std::int64_t kInput = 2 * kHidden * kSeq;

Problem problem_of(const TargetTraits& traits) {
  Problem problem = testing::fake_problem(testing::tiny_llama(), 8, Precision::fp32);
  problem.model = estimator::find_model("llama-2-7b", "", "");
  problem.cluster.device = estimator::find_device("H100-SXM5-80GB", "", "");
  problem.workload.seq = kSeq;
  problem.workload.global_batch = 8;
  problem.workload.precision = Precision::bf16;
  problem.workload.recipe = traits.recipe(Precision::bf16).value();
  problem.target = traits.name;
  problem.target_version = traits.version;
  return problem;
}

Candidate candidate_of(bool offloads) {
  Candidate candidate;
  candidate.dp = 8;
  candidate.zero = 3;
  candidate.recompute.kind = RecomputeKind::full;
  candidate.offload.activations = offloads;
  return candidate;
}

estimator::StageQuantities stage_of(const TargetTraits& traits, bool offloads) {
  return estimator::quantify(problem_of(traits), traits, candidate_of(offloads)).stages.at(0);
}

/// Of activations at the largest instant of the loss.
std::int64_t in_loss(const estimator::StageQuantities& stage) {
  return stage.phases[static_cast<std::size_t>(Phase::loss)].tensors[Account::activations].value;
}

/// The last input is not copied, and the two last ones are taken from where they are.
TEST(ActivationOffload, OfDeepspeedLeavesTheInputsOfTheTwoLastBlocks) {
  const auto plain = stage_of(deepspeed::traits(), false);
  const auto away = stage_of(deepspeed::traits(), true);
  EXPECT_EQ(in_loss(plain) - in_loss(away), (kLayers - 2) * kInput);
  EXPECT_EQ(away.offload.held.value, (kLayers - 1) * kInput);
  EXPECT_EQ(away.offload.moved, static_cast<double>((2 * kLayers - 3) * kInput));
  EXPECT_EQ(away.offload.waited, 0);
}

TEST(ActivationOffload, OfTorchsWrapperWaitsForEveryInput) {
  const auto plain = stage_of(fsdp::traits(), false);
  const auto away = stage_of(fsdp::traits(), true);
  EXPECT_EQ(in_loss(plain) - in_loss(away), kLayers * kInput);
  EXPECT_EQ(away.offload.held.value, kLayers * kInput);
  EXPECT_EQ(away.offload.waited, static_cast<double>(2 * kLayers * kInput));
  EXPECT_EQ(away.offload.moved, 0);
}

/// Of the head the final norm's input in fp32, its statistics and what it gives, and the logarithms
/// of the probabilities are copied, page-locked, and stay.
TEST(ActivationOffload, OfTrlCopiesWhatTheHeadSavesToo) {
  const auto plain = stage_of(hf_trainer::traits(), false);
  const auto away = stage_of(hf_trainer::traits(), true);
  EXPECT_EQ(in_loss(plain) - in_loss(away), kLayers * kInput);
  const std::int64_t norm = 2 * kInput + 4 * kSeq + kInput, logs = 4 * kSeq * kVocab;
  constexpr std::int64_t kPageLocked = std::int64_t{1} << 32;
  ASSERT_LT(logs, kPageLocked);
  EXPECT_EQ(away.offload.held.value, kLayers * kInput + norm + kPageLocked);
  EXPECT_EQ(away.offload.moved - plain.offload.moved,
            static_cast<double>(2 * kLayers * kInput + norm + logs));
}

TEST(ActivationOffload, CutsTheBackwardToo) {
  const auto in_backward = [](const TargetTraits& traits, bool offloads) {
    const auto stage = stage_of(traits, offloads);
    const auto& phase = stage.phases[static_cast<std::size_t>(Phase::backward)];
    return phase.tensors.tensors().value;
  };
  for (const auto& traits : {deepspeed::traits(), fsdp::traits(), hf_trainer::traits()}) {
    EXPECT_LT(in_backward(traits, true), in_backward(traits, false)) << traits.name;
  }
}

Candidate megatron_candidate(bool offloads) {
  Candidate candidate;
  candidate.tp = 2;
  candidate.sp = true;
  candidate.dp = 4;
  candidate.zero = 1;
  candidate.offload.activations = offloads;
  return candidate;
}

/// With two tensor ranks a block sends, in bf16: the input of its first product and what its norm
/// gives, s/2 h each; query, key, value and what attention gives, s h/2 each, the last one twice,
/// which is on the device once. The first backward's last block keeps its own.
TEST(ActivationOffload, OfMegatronSendsWhatItsModulesSave) {
  const TargetTraits& traits = megatron::traits();
  Problem problem = problem_of(traits);
  problem.target_version = "0.16.0";
  const auto stage = [&](bool offloads) {
    return estimator::quantify(problem, traits, megatron_candidate(offloads)).stages.at(0);
  };
  const auto plain = stage(false), away = stage(true);
  const std::int64_t of_block = 7 * kInput / 2;
  EXPECT_EQ(away.offload.held.value, kLayers * of_block) << "of the second micro-batch";
  EXPECT_EQ(away.offload.moved, static_cast<double>(2 * kLayers * of_block));
  EXPECT_EQ(in_loss(plain) - in_loss(away), (kLayers - 1) * 6 * kInput / 2);
}

/// Of eight ranks with 31 inputs each, 62 GiB.
TEST(ActivationOffload, NeedsRoomOnTheHost) {
  const TargetTraits& traits = deepspeed::traits();
  Problem problem = problem_of(traits);
  problem.cluster.per_node = 8;
  const auto estimated = [&](std::int64_t gib) {
    problem.cluster.host_memory = Bytes{gib << 30};
    return estimator::estimate(problem, traits, candidate_of(true),
                               estimator::prior_calibration(problem, traits, std::nullopt));
  };
  EXPECT_EQ(estimated(512).verdict, Verdict::fits) << estimated(512).reason;
  const Estimate small = estimated(64);
  EXPECT_EQ(small.verdict, Verdict::too_large);
  EXPECT_NE(small.reason.find("no room for offload activations in a node's memory"),
            std::string::npos)
      << small.reason;
}

std::string refusal(const TargetTraits& traits, const std::string& version,
                    const Candidate& candidate) {
  Problem problem = problem_of(traits);
  if (!version.empty()) problem.target_version = version;
  const auto broken = broken_rule(problem, traits, candidate);
  return broken ? broken->name : "";
}

TEST(ActivationOffload, OfMegatronIsOfItsVersionAndOfWhatIsSaved) {
  const TargetTraits& traits = megatron::traits();
  Candidate candidate = megatron_candidate(true);
  EXPECT_EQ(refusal(traits, "0.16.0", candidate), "");
  EXPECT_EQ(refusal(traits, "0.15.0", candidate), "offload_of_version");
  candidate.knobs = {{"megatron_core", "0.16"}};
  EXPECT_EQ(refusal(traits, "", candidate), "");
  candidate.recompute = {RecomputeKind::selective, 0, {}};
  EXPECT_EQ(refusal(traits, "0.16.0", candidate), "");
  candidate.recompute = {RecomputeKind::full, 0, {}};
  EXPECT_EQ(refusal(traits, "0.16.0", candidate), "offload_of_what_is_saved");
}

TEST(ActivationOffload, OfInputsNeedsBlocksThatAreRunAgain) {
  for (const auto& traits : {deepspeed::traits(), fsdp::traits(), hf_trainer::traits()}) {
    Candidate candidate = candidate_of(true);
    EXPECT_EQ(refusal(traits, "", candidate), "") << traits.name;
    candidate.recompute = {};
    EXPECT_EQ(refusal(traits, "", candidate), traits.name == "hf-trainer"
                                                  ? "estimates_offload_of_inputs"
                                                  : "activation_offload_needs_recompute");
  }
  Candidate candidate = candidate_of(true);
  candidate.knobs = {{"transformers", "4.48"}};
  EXPECT_EQ(refusal(hf_trainer::traits(), "", candidate), "estimates_offload_of_checkpoint");
}

}  // namespace
}  // namespace planwright::targets
