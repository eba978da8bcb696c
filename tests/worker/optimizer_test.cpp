#include "probes/worker/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "model_fixture.h"
#include "probes/worker/device_memory.h"
#include "tests/support/fake_traits.h"
#include "tests/support/recipe_cells.h"

namespace planwright::worker::testing {
namespace {

using planwright::testing::NamedRecipe;
using planwright::testing::tiny_gpt;

/// A tensor of the model and its states in double, updated as the papers say. A vector is a matrix
/// of one row.
class ByTheBook {
 public:
  ByTheBook(OptimizerKind kind, const at::Tensor& weight)
      : kind_(kind),
        columns_(weight.size(-1)),
        factored_(weight.dim() == 2),
        weight_(values(weight)),
        moment1_(weight_.size()),
        moment2_(weight_.size()) {}

  void update(const std::vector<double>& gradient) {
    ++step_;
    if (kind_ == OptimizerKind::adafactor) return adafactor(gradient);
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      const double g = gradient[i];
      double &w = weight_[i], &m = moment1_[i], &v = moment2_[i];
      if (kind_ == OptimizerKind::adamw) {  // Loshchilov, Hutter (2019), algorithm 2
        m = kBeta1 * m + (1 - kBeta1) * g;
        v = kBeta2 * v + (1 - kBeta2) * g * g;
        const double unbiased1 = m / (1 - std::pow(kBeta1, step_));
        const double unbiased2 = v / (1 - std::pow(kBeta2, step_));
        w -=
            kAdamwLearningRate * (unbiased1 / (std::sqrt(unbiased2) + kEpsilon) + kWeightDecay * w);
      } else if (kind_ == OptimizerKind::sgd) {
        m = kMomentum * m + g;
        w -= kSgdLearningRate * m;
      } else {  // Chen et al. (2023), algorithm 2
        const double c = kLionBeta1 * m + (1 - kLionBeta1) * g;
        w -= kLionLearningRate * (double(c > 0) - double(c < 0) + kWeightDecay * w);
        m = kLionBeta2 * m + (1 - kLionBeta2) * g;
      }
    }
  }

  const std::vector<double>& weight() const { return weight_; }

  static std::vector<double> values(const at::Tensor& tensor) {
    const at::Tensor copy = tensor.to(at::kDouble).contiguous();
    return {copy.data_ptr<double>(), copy.data_ptr<double>() + copy.numel()};
  }

 private:
  /// Shazeer, Stern (2018), algorithm 4, with sums over rows and columns, and 5 for vectors.
  void adafactor(const std::vector<double>& gradient) {
    const double keep = 1 - std::pow(step_, -0.8);
    const std::size_t rows = weight_.size() / columns_;
    std::vector<double> row_sums(rows), column_sums(columns_), v(weight_.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = gradient[i] * gradient[i] + 1e-30;
      row_sums[i / columns_] += v[i];
      column_sums[i % columns_] += v[i];
    }
    moment1_.resize(rows);
    moment2_.resize(factored_ ? columns_ : v.size());
    const auto mix = [&](std::vector<double>& moments, const std::vector<double>& now) {
      for (std::size_t i = 0; i < moments.size(); ++i) {
        moments[i] = keep * moments[i] + (1 - keep) * now[i];
      }
    };
    mix(moment1_, row_sums);
    mix(moment2_, factored_ ? column_sums : v);
    const double total = std::accumulate(moment1_.begin(), moment1_.end(), 0.0);
    std::vector<double> update(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double second =
          factored_ ? moment1_[i / columns_] * moment2_[i % columns_] / total : moment2_[i];
      update[i] = gradient[i] / std::sqrt(second);
    }
    const double step_size = std::max(1e-3, root_mean_square(weight_)) *
                             std::min(1e-2, 1 / std::sqrt(step_)) /
                             std::max(1.0, root_mean_square(update));
    for (std::size_t i = 0; i < v.size(); ++i) weight_[i] -= step_size * update[i];
  }

  static double root_mean_square(const std::vector<double>& x) {
    return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) /
                     static_cast<double>(x.size()));
  }

  OptimizerKind kind_;
  std::size_t columns_;
  bool factored_;
  int step_ = 0;
  std::vector<double> weight_, moment1_, moment2_;
};

struct Case {
  OptimizerKind kind;
  NamedRecipe named;
};

std::vector<Case> all_cases() {
  std::vector<NamedRecipe> recipes = planwright::testing::named_recipes();
  recipes.push_back({"fp64",
                     Precision::fp64,
                     {DType::fp64, DType::fp64, DType::fp64, std::nullopt, DType::fp64}});
  std::vector<Case> cases;
  for (const OptimizerKind kind : planwright::testing::worker_optimizers()) {
    for (const NamedRecipe& recipe : recipes) cases.push_back({kind, recipe});
  }
  return cases;
}

class OptimizerSteps : public ::testing::TestWithParam<Case> {
 protected:
  OptimizerSteps() : loaded_(tiny_gpt(), Precision::fp32) {
    Workload& workload = loaded_.problem.workload;
    workload.optimizer = GetParam().kind;
    workload.recipe = GetParam().named.recipe;
    state_.emplace(load_model(loaded_.problem, loaded_.state.layout, 1, at::kCPU));
    state_->parameters.copy_(loaded_.state.parameters);
  }

  /// As a fraction of a weight: a bfloat16 has 8 bits and is rounded once a step, a half has 11.
  double tolerance() const {
    const PrecisionRecipe& r = GetParam().named.recipe;
    if (r.storage == DType::fp64) return 1e-13;
    if (r.storage == DType::fp32 && r.state == DType::fp32) return 2e-6;
    return r.storage == DType::fp16 && r.state == DType::fp32 ? 1e-3 : 3.0 / 256;
  }

  LoadedModel loaded_;
  std::optional<ModelState> state_;
};

TEST_P(OptimizerSteps, are_those_of_the_authors) {
  Optimizer optimizer(loaded_.problem.workload, *state_);
  std::vector<ByTheBook> expected;
  for (const FlatTensor& tensor : state_->layout.tensors) {
    expected.emplace_back(GetParam().kind, tensor_view(state_->parameters, tensor));
  }
  constexpr double kFactor = 0.25;
  at::manual_seed(5);
  for (int step = 0; step < 3; ++step) {
    state_->gradients.normal_();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      auto gradient = ByTheBook::values(tensor_view(state_->gradients, state_->layout.tensors[i]));
      for (double& g : gradient) g *= kFactor;
      expected[i].update(gradient);
    }
    optimizer.step(kFactor);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const FlatTensor& tensor = state_->layout.tensors[i];
    const auto actual = ByTheBook::values(tensor_view(state_->parameters, tensor));
    for (std::size_t k = 0; k < actual.size(); ++k) {
      const double wanted = expected[i].weight()[k];
      ASSERT_NEAR(actual[k], wanted, tolerance() * std::max(0.1, std::abs(wanted)))
          << tensor.tensor.name << " element " << k;
    }
  }
}

TEST_P(OptimizerSteps, allocate_nothing_but_scalars) {
  Optimizer optimizer(loaded_.problem.workload, *state_);
  state_->gradients.fill_(0.1);
  optimizer.step(0.5);
  reset_memory_peaks();
  const Bytes held = live_memory().allocated();
  optimizer.step(0.5);
  EXPECT_LE(memory_peaks().allocated.allocated(), held + Bytes{8});
}

TEST_P(OptimizerSteps, leave_weights_without_a_gradient_finite) {
  Optimizer optimizer(loaded_.problem.workload, *state_);
  for (int step = 0; step < 3; ++step) {
    state_->gradients.zero_();
    state_->gradients.narrow(0, 0, 100).fill_(step);
    optimizer.step();
  }
  EXPECT_TRUE(state_->parameters.isfinite().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, OptimizerSteps, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) {
                           return std::string(word(info.param.kind)) + "_" + info.param.named.name;
                         });

// An update of a thousandth of a weight is lost in a bfloat16 and must not be lost over many steps.
TEST(Optimizer, accumulates_in_the_master_copy_what_bf16_cannot_hold) {
  LoadedModel model(tiny_gpt(), Precision::bf16);
  model.problem.workload.optimizer = OptimizerKind::sgd;
  model.state.parameters.fill_(1.0);
  Optimizer optimizer(model.problem.workload, model.state);
  model.state.gradients.fill_(1e-2);  // times 0.01: each step takes a thousandth at most
  for (int i = 0; i < 50; ++i) optimizer.step();
  const double momentum = (1 - std::pow(kMomentum, 50)) / (1 - kMomentum);
  const double taken = 1e-2 * kSgdLearningRate / (1 - kMomentum) * (50 - kMomentum * momentum);
  EXPECT_NEAR(model.state.parameters[0].item<double>(), 1 - taken, 1.0 / 256);
  EXPECT_GT(taken, 0.04);
}

TEST(Optimizer, of_whole_tensors_refuses_shards) {
  const ModelSpec spec = tiny_gpt();
  Problem problem = planwright::testing::fake_problem(spec, 2, Precision::fp32);
  problem.workload.optimizer = OptimizerKind::adafactor;
  const ModelState state =
      load_model(problem, whole_model(spec), flat_layout(spec, 2, 4000), {.rank = 1}, 1, at::kCPU);
  EXPECT_THROW(Optimizer(problem.workload, state), std::invalid_argument);
}

TEST(Optimizer, owns_the_slices_of_its_rank_only) {
  const ModelSpec spec = tiny_gpt();
  Problem problem = planwright::testing::fake_problem(spec, 2, Precision::fp32);
  const ModelState state =
      load_model(problem, whole_model(spec), flat_layout(spec, 2, 4000), {.rank = 1}, 1, at::kCPU);
  ASSERT_GT(state.layout.buckets.size(), 1U);
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion}) {
    problem.workload.optimizer = kind;
    const at::Tensor before = state.parameters.clone();
    Optimizer optimizer(problem.workload, state);
    state.gradients.fill_(1.0);
    optimizer.step();
    for (const FlatBucket& bucket : state.layout.buckets) {
      const auto others = [&](const at::Tensor& flat) {
        return flat.narrow(0, bucket.begin, bucket.numel / 2);
      };
      const auto own = [&](const at::Tensor& flat) {
        return own_slice(state, bucket, flat, false);
      };
      EXPECT_TRUE(at::equal(others(state.parameters), others(before)));
      EXPECT_FALSE((own(state.parameters) == own(before)).any().item<bool>());
    }
  }
}

}  // namespace
}  // namespace planwright::worker::testing
