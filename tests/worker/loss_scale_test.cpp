#include "probes/worker/loss_scale.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "model_fixture.h"
#include "probes/worker/collectives.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/optimizer.h"
#include "rank_processes.h"
#include "tests/support/fake_traits.h"

namespace planwright::worker::testing {
namespace {

using planwright::testing::fake_problem;
using planwright::testing::tiny_gpt;

PrecisionRecipe recipe(Precision precision) {
  return fake_problem(tiny_gpt(), 1, precision).workload.recipe;
}

const float kBad[] = {std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()};

TEST(LossScale, IsOneAndAcceptsAnythingOutsideFp16) {
  Group alone(0, 1, nullptr);
  for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
    const Bytes before = live_memory().allocated();
    LossScale scale(recipe(precision), at::kCPU);
    EXPECT_EQ(live_memory().allocated(), before);
    EXPECT_TRUE(scale.accept({at::ones({3}).fill_(kBad[0])}, alone));
    EXPECT_EQ(scale.value(), 1);
  }
}

TEST(LossScale, HalvesOnAnythingThatIsNotFinite) {
  Group alone(0, 1, nullptr);
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    LossScale scale(recipe(Precision::fp16), at::kCPU);
    double expected = 65536;
    for (const float bad : kBad) {
      EXPECT_EQ(scale.value(), expected);
      const at::Tensor gradient = at::ones({100000}, type);
      EXPECT_TRUE(scale.accept({gradient}, alone));
      gradient[77777].fill_(bad);
      EXPECT_FALSE(scale.accept({at::ones({5}, type), gradient}, alone));
      expected /= 2;
    }
  }
}

TEST(LossScale, DoublesAfterTwoThousandGoodStepsInARow) {
  Group alone(0, 1, nullptr);
  LossScale scale(recipe(Precision::fp16), at::kCPU);
  const at::Tensor good = at::ones({4}), bad = at::ones({4}).fill_(kBad[0]);
  for (int i = 0; i < 1999; ++i) scale.accept({good}, alone);
  scale.accept({bad}, alone);
  EXPECT_EQ(scale.value(), 32768);
  for (int i = 0; i < 1999; ++i) scale.accept({good}, alone);
  EXPECT_EQ(scale.value(), 32768);
  scale.accept({good}, alone);
  EXPECT_EQ(scale.value(), 65536);
}

TEST(LossScale, DoesNotFallBelowOne) {
  Group alone(0, 1, nullptr);
  LossScale scale(recipe(Precision::fp16), at::kCPU);
  for (int i = 0; i < 40; ++i) scale.accept({at::ones({4}).fill_(kBad[2])}, alone);
  EXPECT_EQ(scale.value(), 1);
}

TEST(LossScale, AllocatesTwoScalarsOnceAndLeavesTheGradients) {
  Group alone(0, 1, nullptr);
  const Bytes before = live_memory().allocated();
  LossScale scale(recipe(Precision::fp16), at::kCPU);
  EXPECT_EQ(live_memory().allocated(), before + Bytes{8});
  for (const at::ScalarType type : {at::kFloat, at::kHalf}) {
    const at::Tensor gradient = at::ones({100001}, type).fill_(1e-7);
    const at::Tensor copy = gradient.clone();
    scale.accept({gradient}, alone);
    reset_memory_peaks();
    const Bytes held = live_memory().allocated();
    scale.accept({gradient}, alone);
    EXPECT_EQ(memory_peaks().allocated.allocated(), held) << type;
    EXPECT_TRUE(at::equal(gradient, copy));
  }
}

/// A scale that no half can carry: the gradients overflow, the step is skipped, the scale halves;
/// with the usual scale the next one is taken.
TEST(LossScale, SkipsAStepThatOverflowed) {
  Group alone(0, 1, nullptr);
  for (const DType gradient : {DType::fp32, DType::fp16}) {
    PrecisionRecipe types = recipe(Precision::fp16);
    types.gradient = gradient;
    LoadedModel model(tiny_gpt(), types);
    Optimizer optimizer(model.problem.workload, model.state);
    LossScale scale(types, at::kCPU);
    const auto step = [&](double gradient_scale) {
      model.run({.scale = gradient_scale});
      const double unscale = 1 / scale.value();
      const bool accepted = scale.accept(optimizer.gradients(), alone);
      if (accepted) optimizer.step(unscale);
      return accepted;
    };
    const at::Tensor before = model.state.parameters.clone();
    EXPECT_FALSE(step(1e9));
    EXPECT_TRUE(at::equal(model.state.parameters, before));
    EXPECT_EQ(scale.value(), 32768);
    EXPECT_TRUE(step(kScale / 64 * scale.value()));
    EXPECT_FALSE(at::equal(model.state.parameters, before));
    EXPECT_TRUE(model.state.parameters.isfinite().all().item<bool>());
  }
}

TEST(LossScale, IsAgreedByAllRanks) {
  const std::string folder = fresh_folder();
  probes::ProbeRequest request;
  request.world = 2;
  request.rendezvous = folder + "/rendezvous";
  const auto rank = [&](int number, std::vector<double>& scales) {
    Collectives collectives(request, number);
    LossScale scale(recipe(Precision::fp16), at::kCPU);
    for (const int overflowed : {0, 1, 2}) {  // the second rank in the second step, then nobody
      const at::Tensor gradient = at::ones({8});
      if (overflowed == number) gradient[3].fill_(kBad[0]);
      scale.accept({gradient}, collectives.all());
      scales.push_back(scale.value());
    }
  };
  std::vector<double> first, second;
  std::thread other([&] { rank(1, second); });
  rank(0, first);
  other.join();
  EXPECT_EQ(first, (std::vector<double>{32768, 16384, 16384}));
  EXPECT_EQ(second, first);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace planwright::worker::testing
