#include <gtest/gtest.h>

#include <bit>

#include "framework_states.h"
#include "launcher/targets/accelerate/traits.h"
#include "launcher/targets/deepspeed/traits.h"
#include "launcher/targets/fsdp/traits.h"
#include "launcher/targets/torchtitan/traits.h"

/// What each framework keeps on the host of a plan that offloads, and what moves.
namespace planwright::targets {
namespace {

/// Of a rank of two on GPUs that offloads.
estimator::StageQuantities offloaded(const TargetTraits& traits, int zero, const Offload& offload) {
  Problem problem = problem_of(traits, 2, kBf16);
  problem.cluster.device.kind = DeviceKind::cuda;
  Candidate candidate = candidate_of(2, zero);
  candidate.offload = offload;
  return estimator::quantify(problem, traits, candidate).stages.at(0);
}

std::int64_t page_locked(std::int64_t bytes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

/// The own half of masters, moments, gradients in fp32 and weights in bf16, and the largest
/// tensor's gradient, which has room on the device too.
TEST(DeepspeedOffload, KeepsTheOwnPartOfStatesOnTheHost) {
  const auto stage = offloaded(deepspeed::traits(), 2, {.optimizer = true});
  const std::int64_t half = sums_of(2).flat / 2, largest = 4608 * 256;
  EXPECT_NEAR(
      stage.offload.held.value,
      2 * page_locked(4 * half) + 8 * half + page_locked(2 * half) + page_locked(2 * largest),
      kAllowed);
  EXPECT_EQ(stage.loaded[Account::optimizer], Bytes{});
  EXPECT_EQ(stage.loaded[Account::staging].value, 2 * largest);
  EXPECT_EQ(stage.phases[static_cast<std::size_t>(Phase::optimizer)].tensors[Account::gradients],
            Bytes{});
  // Gradients there, each micro-batch, and the new weights back, each step.
  EXPECT_NEAR(stage.offload.moved, 4.0 * half, kAllowed);
  EXPECT_NEAR(stage.offload.moved_each_step, 2.0 * half, kAllowed);
  EXPECT_EQ(stage.optimizer_bytes, 0);
  EXPECT_GT(stage.offload.optimizer_bytes, 0);
}

TEST(DeepspeedOffload, OfWeightsLeavesThoseThatAreGathered) {
  const auto stage = offloaded(deepspeed::traits(), 3, {.optimizer = true, .params = true});
  const std::int64_t part = sums_of(2).parts;
  EXPECT_NEAR(stage.offload.held.value,
              2 * page_locked(4 * part) + 8 * part + 2 * page_locked(2 * part), kAllowed);
  // Of at most 100,000 elements: four blocks' attention and norms, and the last norm.
  EXPECT_EQ(stage.loaded[Account::parameters].value,
            2 * (4 * (2 * 256 * 256 + 2 * 128 * 256 + 2 * 256) + 256));
  EXPECT_NEAR(stage.offload.moved, 2.0 * (2.0 * part) + 4.0 * part, kAllowed)
      << "to each of two gatherings, and gradients back";
}

TEST(DeepspeedOffload, ToADiskKeepsBuffersInMemory) {
  const auto stage =
      offloaded(deepspeed::traits(), 3,
                {.optimizer = true, .params = true, .activations = false, .to = OffloadTo::nvme});
  const std::int64_t part = sums_of(2).parts;
  EXPECT_NEAR(stage.offload.held.value,
              page_locked(2 * part) + page_locked(4 * 4 * part) + page_locked(2 * part) +
                  page_locked(5 * 100'000'000 * 2),
              kAllowed);
}

/// Each tensor's rows and their gradients are page-locked by themselves.
TEST(FsdpOffload, KeepsAllPartsOnTheHost) {
  for (const auto& traits : {fsdp::traits(), accelerate::traits(), torchtitan::traits()}) {
    const auto stage = offloaded(traits, 3, {.optimizer = true, .params = true});
    std::int64_t parts = 0;
    for (const Shape& shape : shapes()) {
      parts += page_locked(4 * up(shape[0], 2) * product(shape) / shape[0]);
    }
    const Sums s = sums_of(2);
    const bool fused = traits.name == "torchtitan";
    const std::int64_t denominator = fused ? 0 : 2 * 4 * 4608 / 2 * 256;
    EXPECT_EQ(stage.offload.held.value, 2 * parts + 8 * s.rows + 4 * s.tensors + denominator)
        << traits.name;
    EXPECT_EQ(stage.loaded[Account::optimizer], Bytes{}) << traits.name;
    EXPECT_NEAR(stage.offload.moved + stage.offload.moved_each_step,
                2.0 * (4.0 * s.rows) + 4.0 * s.rows, 4096)
        << traits.name;
  }
}

}  // namespace
}  // namespace planwright::targets
