#include "probes/worker/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model_fixture.h"
#include "probes/worker/device_memory.h"
#include "tests/support/fake_traits.h"

namespace planwright::worker::testing {
namespace {

using planwright::testing::tiny_gpt;

/// AdamW by the book. Source: Loshchilov, Hutter (2019), algorithm 2.
struct ByTheBook {
  double weight, moment1 = 0, moment2 = 0;
  int step = 0;

  void update(double gradient) {
    ++step;
    moment1 = kBeta1 * moment1 + (1 - kBeta1) * gradient;
    moment2 = kBeta2 * moment2 + (1 - kBeta2) * gradient * gradient;
    const double unbiased1 = moment1 / (1 - std::pow(kBeta1, step));
    const double unbiased2 = moment2 / (1 - std::pow(kBeta2, step));
    weight -= kAdamwLearningRate *
              (unbiased1 / (std::sqrt(unbiased2) + kEpsilon) + kWeightDecay * weight);
  }
};

class OptimizerSteps : public ::testing::TestWithParam<Precision> {};

TEST_P(OptimizerSteps, of_adamw_are_those_of_its_authors) {
  LoadedModel model(tiny_gpt(), GetParam());
  Optimizer optimizer(model.problem.workload, model.state, 0);
  constexpr std::int64_t kElement = 20;
  ByTheBook expected{.weight = model.state.parameters[kElement].item<double>()};
  for (const double gradient : {0.5, -0.25, 2.0}) {
    model.state.gradients.fill_(gradient);
    optimizer.step();
    expected.update(gradient);
    const double tolerance = GetParam() == Precision::bf16 ? 1.0 / 256 : 1e-6;
    EXPECT_NEAR(model.state.parameters[kElement].item<double>(), expected.weight,
                tolerance * std::abs(expected.weight));
  }
}

TEST_P(OptimizerSteps, allocate_nothing_but_scalars) {
  LoadedModel model(tiny_gpt(), GetParam());
  Optimizer optimizer(model.problem.workload, model.state, 0);
  model.state.gradients.fill_(0.1);
  optimizer.step();
  reset_memory_peaks();
  const Bytes held = live_memory().allocated();
  optimizer.step();
  EXPECT_LE(memory_peaks().allocated.allocated(), held + Bytes{8});
}

INSTANTIATE_TEST_SUITE_P(OfEveryRecipe, OptimizerSteps,
                         ::testing::Values(Precision::fp64, Precision::fp32, Precision::bf16),
                         [](const auto& info) { return std::string(word(info.param)); });

// An update of a thousandth of a weight is lost in a bfloat16 and must not be lost over many steps.
TEST(Optimizer, accumulates_in_the_master_copy_what_bf16_cannot_hold) {
  LoadedModel model(tiny_gpt(), Precision::bf16);
  model.problem.workload.optimizer = OptimizerKind::sgd;
  model.state.parameters.fill_(1.0);
  Optimizer optimizer(model.problem.workload, model.state, 0);
  model.state.gradients.fill_(1e-2);  // times 0.1: each step takes a thousandth
  for (int i = 0; i < 50; ++i) optimizer.step();
  EXPECT_NEAR(model.state.parameters[0].item<double>(), 0.95, 1.0 / 256);
}

TEST(Optimizer, owns_the_slices_of_its_rank_only) {
  const ModelSpec spec = tiny_gpt();
  const Problem problem = planwright::testing::fake_problem(spec, 2, Precision::fp32);
  const ModelState state = load_model(problem, flat_layout(spec, 2, 4000), 1, at::kCPU);
  ASSERT_GT(state.layout.buckets.size(), 1U);
  const at::Tensor before = state.parameters.clone();
  Optimizer optimizer(problem.workload, state, 1);
  state.gradients.fill_(1.0);
  optimizer.step();
  for (const FlatBucket& bucket : state.layout.buckets) {
    const auto slice = [&](const at::Tensor& flat, int shard) {
      return bucket_slice(flat, state.layout, bucket, shard);
    };
    EXPECT_TRUE(at::equal(slice(state.parameters, 0), slice(before, 0)));
    EXPECT_FALSE((slice(state.parameters, 1) == slice(before, 1)).any().item<bool>());
  }
}

}  // namespace
}  // namespace planwright::worker::testing
