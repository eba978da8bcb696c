#include "probes/worker/train_job.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "model_fixture.h"
#include "probes/worker/device_memory.h"
#include "tests/support/fake_traits.h"
#include "tests/support/recipe_cells.h"

namespace planwright::worker::testing {
namespace {

using planwright::testing::data_parallel;
using planwright::testing::fake_problem;
using planwright::testing::tiny_gpt;
using planwright::testing::tiny_llama;
using ::testing::HasSubstr;

constexpr std::int64_t kBucketElements = 5000;

probes::TrainJob job_of(const ModelSpec& model, Precision precision, int micro_batch,
                        RecomputeKind recompute = RecomputeKind::none) {
  probes::TrainJob job;
  job.problem = fake_problem(model, 1, precision);
  job.candidate = data_parallel(1, 0, micro_batch, recompute);
  job.scope = {.kind = ScopeKind::full, .warmup = 1, .steps = 2};
  job.bucket_elements = kBucketElements;
  return job;
}

probes::RankJobReport run(const probes::TrainJob& job) {
  probes::ProbeRequest request;
  Collectives alone(request, 0);
  const Progress progress;
  probes::RankReport report;
  probes::RankJobReport job_report;
  run_train_job(job, {at::kCPU, alone, progress}, report, job_report);
  return job_report;
}

/// The sizes of docs/runtime.md for a job.
struct Sizes {
  explicit Sizes(const probes::TrainJob& job) {
    const ModelSpec& model = job.problem.model;
    const BlockSpec& block = model.block(0);
    b = job.candidate.micro_batch;
    s = job.problem.workload.seq;
    bs = b * s;
    h = model.hidden;
    v = model.vocab;
    f = block.ffn;
    a = block.heads;
    A = block.heads * block.head_dim;
    K = block.kv_heads * block.head_dim;
    L = model.layers();
    e = bytes_of(job.problem.workload.recipe.compute);
    N = flat_layout(model, 1, job.bucket_elements).numel;
    u = e * bs * h;
  }
  std::int64_t b, s, bs, h, v, f, a, A, K, L, e, N, u;
  std::int64_t c = 4;
};

/// A model whose peak is in a block's matrices: a small vocabulary, a wide MLP.
ModelSpec wide_llama() {
  ModelSpec model = tiny_llama();
  model.vocab = 11;
  model.runs.front().block.ffn = 500;
  return model;
}

class TrainJob : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_F(TrainJob, of_a_gpt_in_fp32_peaks_at_the_loss_as_written_out_by_hand) {
  const auto job = job_of(tiny_gpt(), Precision::fp32, 4);
  const Sizes z(job);
  const std::int64_t states = 16 * z.N + 4;  // weight, gradient, two moments; the counter
  const std::int64_t stats = 2 * z.c * z.bs;
  const std::int64_t block =
      z.e * z.bs * (3 * z.h + 2 * z.A + 2 * z.K + 2 * z.f) + 2 * stats + z.c * z.b * z.a * z.s;
  const std::int64_t inputs = (z.L + 1) * z.u;
  const std::int64_t head = z.u + stats + z.e * z.bs * z.v;
  const std::int64_t ids = 16 * z.bs;
  const RankMeasurement m = run(job).measurement;
  EXPECT_EQ(m.tensor_peak().value, states + ids + inputs + z.L * block + head);
  EXPECT_EQ(m.tensors[Account::logits].value, z.e * z.bs * z.v);
}

TEST_F(TrainJob, of_a_llama_in_bf16_peaks_in_its_last_blocks_weight_gradient) {
  const auto job = job_of(wide_llama(), Precision::bf16, 1);
  const Sizes z(job);
  const std::int64_t states = 18 * z.N + 4 + 4 * z.s * 8;  // head_dim is 8
  const std::int64_t stats = z.c * z.bs;
  const std::int64_t block =
      z.e * z.bs * (3 * z.h + 2 * z.A + 2 * z.K + 3 * z.f) + 2 * stats + z.c * z.b * z.a * z.s;
  const std::int64_t inputs = z.L * z.u;  // the final norm's is gone
  const std::int64_t dy = z.u;
  // gate_up: its gradient in bf16, when the product of the activation is gone already.
  const std::int64_t here = z.e * 2 * z.f * z.h - z.e * z.bs * z.f;
  const RankMeasurement m = run(job).measurement;
  EXPECT_EQ(m.tensor_peak().value, states + 16 * z.bs + inputs + z.L * block + dy + here);
  EXPECT_EQ(m.tensors_phase, Phase::backward);
}

TEST_F(TrainJob, with_full_recompute_keeps_only_the_inputs_of_the_blocks) {
  const auto job = job_of(wide_llama(), Precision::bf16, 1, RecomputeKind::full);
  const Sizes z(job);
  const std::int64_t states = 18 * z.N + 4 + 4 * z.s * 8;
  const std::int64_t stats = z.c * z.bs;
  const std::int64_t block =
      z.e * z.bs * (3 * z.h + 2 * z.A + 2 * z.K + 3 * z.f) + 2 * stats + z.c * z.b * z.a * z.s;
  const std::int64_t here = z.e * 2 * z.f * z.h - z.e * z.bs * z.f;
  const RankMeasurement m = run(job).measurement;
  EXPECT_EQ(m.tensor_peak().value, states + 16 * z.bs + z.L * z.u + block + z.u + here);
}

TEST_F(TrainJob, holds_its_states_at_every_named_instant) {
  const auto job = job_of(tiny_llama(), Precision::bf16, 2);
  const Sizes z(job);
  const RankMeasurement m = run(job).measurement;
  EXPECT_EQ(m.loaded[Account::parameters].value, 2 * z.N + 4 * z.s * 8);
  EXPECT_EQ(m.loaded[Account::gradients].value, 4 * z.N);
  EXPECT_EQ(m.loaded[Account::optimizer].value, 12 * z.N + 4);
  EXPECT_EQ(m.loaded.allocated().value, 18 * z.N + 4 * z.s * 8 + 4);
  EXPECT_EQ(m.step_end, m.loaded);
  EXPECT_EQ(live_memory().allocated(), Bytes{0});
}

TEST_F(TrainJob, has_a_peak_whose_accounts_sum_to_it) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const RankMeasurement m = run(job_of(tiny_gpt(), precision, 2)).measurement;
    EXPECT_GE(m.allocated_peak(), m.tensor_peak());
    EXPECT_EQ(m.tensors.tensors() + m.tensors[Account::workspace], m.tensors.allocated());
    EXPECT_EQ(m.peak[Account::context], Bytes{0});
  }
}

TEST_F(TrainJob, reports_a_time_for_each_measured_step_and_a_loss_for_all) {
  const auto report = run(job_of(tiny_llama(), Precision::fp32, 2));
  EXPECT_EQ(report.measurement.steps_s.size(), 2U);
  EXPECT_EQ(report.losses.size(), 3U);
  EXPECT_NEAR(report.losses.front(), std::log(50.0), 0.1);  // no better than chance at first
}

TEST_F(TrainJob, is_repeated_bit_by_bit_by_the_same_seed_only) {
  auto job = job_of(tiny_gpt(), Precision::bf16, 4);
  const auto first = run(job).losses;
  EXPECT_EQ(run(job).losses, first);
  job.seed = 1;
  EXPECT_NE(run(job).losses, first);
}

TEST_F(TrainJob, gives_the_same_loss_however_the_batch_is_cut_and_recomputed) {
  const auto whole = run(job_of(tiny_llama(), Precision::fp64, 8)).losses;
  for (const int micro_batch : {1, 2, 4}) {
    const auto cut =
        run(job_of(tiny_llama(), Precision::fp64, micro_batch, RecomputeKind::full)).losses;
    ASSERT_EQ(cut.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(cut[i], whole[i], 1e-12);
  }
}

/// Ten steps on the same stream of tokens bring the loss from 3.929 to 3.920 or less. In bf16 it
/// was measured to differ by up to 1.9e-4 on the way, in fp16 by 5.5e-5.
TEST_F(TrainJob, in_every_mix_of_types_keeps_to_the_losses_of_fp32) {
  for (const OptimizerKind optimizer : planwright::testing::worker_optimizers()) {
    const auto losses = [&](const planwright::testing::NamedRecipe& each) {
      auto job = job_of(tiny_llama(), each.precision, 4);
      job.problem.workload.recipe = each.recipe;
      job.problem.workload.optimizer = optimizer;
      job.scope = {.kind = ScopeKind::full, .warmup = 0, .steps = 10};
      return run(job).losses;
    };
    const auto recipes = planwright::testing::named_recipes();
    const auto expected = losses(recipes.front());
    EXPECT_LT(expected.back(), expected.front() - 0.008);
    for (const auto& each : recipes) {
      const auto actual = losses(each);
      ASSERT_EQ(actual.size(), 10U);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_NEAR(actual[i], expected[i], each.precision == Precision::bf16 ? 4e-4 : 1e-4)
            << word(optimizer) << " " << each.name << " step " << i;
      }
    }
  }
}

TEST_F(TrainJob, runs_out_of_its_budget_by_one_byte_and_can_be_followed_by_another) {
  auto job = job_of(tiny_gpt(), Precision::fp32, 4);
  const Bytes peak = run(job).measurement.allocated_peak();
  job.memory_budget = peak;
  EXPECT_NO_THROW(run(job));
  job.memory_budget = peak - Bytes{1};
  EXPECT_THROW(run(job), DeviceOutOfMemory);
  EXPECT_EQ(live_memory().allocated(), Bytes{0});
  job.memory_budget.reset();
  EXPECT_EQ(run(job).measurement.allocated_peak(), peak);
}

TEST_F(TrainJob, with_the_composed_kernels_keeps_the_same_states) {
  auto job = job_of(tiny_llama(), Precision::fp32, 4);
  const auto in_place = run(job);
  job.kernels = KernelSet::composed;
  const auto composed = run(job);
  EXPECT_EQ(composed.measurement.loaded, in_place.measurement.loaded);
  EXPECT_EQ(composed.measurement.step_end, in_place.measurement.step_end);
  for (std::size_t i = 0; i < in_place.losses.size(); ++i) {
    EXPECT_NEAR(composed.losses[i], in_place.losses[i], 1e-5);
  }
}

TEST_F(TrainJob, that_cannot_be_run_is_refused_by_what_is_wrong) {
  struct Case {
    const char* text;
    void (*change)(probes::TrainJob&);
  };
  const std::vector<Case> cases{
      {"only tp, pp and dp", [](probes::TrainJob& j) { j.candidate.cp = 2; }},
      {"2 ranks with 1 processes", [](probes::TrainJob& j) { j.candidate.dp = 2; }},
      {"zero 4", [](probes::TrainJob& j) { j.candidate.zero = 4; }},
      {"schedule zb", [](probes::TrainJob& j) { j.candidate.schedule = Schedule::zero_bubble; }},
      {"offload optimizer", [](probes::TrainJob& j) { j.candidate.offload.optimizer = true; }},
      {"recompute op", [](probes::TrainJob& j) { j.candidate.recompute.kind = RecomputeKind::op; }},
      {"recompute selective:mlp",
       [](probes::TrainJob& j) {
         j.candidate.recompute = {RecomputeKind::selective, 0, {"mlp"}};
       }},
      {"flash attention with dropout",
       [](probes::TrainJob& j) { j.problem.workload.attention_dropout = 0.1; }},
      {"dropout in parallel blocks",
       [](probes::TrainJob& j) {
         j.problem.workload.hidden_dropout = 0.1;
         j.problem.model.runs.front().block.residual = Residual::parallel;
       }},
      {"gradients in bf16",
       [](probes::TrainJob& j) { j.problem.workload.recipe.gradient = DType::bf16; }},
      {"states in fp16",
       [](probes::TrainJob& j) { j.problem.workload.recipe.state = DType::fp16; }},
      {"weights of these types",
       [](probes::TrainJob& j) { j.problem.workload.recipe.storage = DType::bf16; }},
      {"master weights",
       [](probes::TrainJob& j) {
         j.problem.workload.recipe = {DType::fp16, DType::fp16, DType::fp32, std::nullopt,
                                      DType::fp32};
       }},
      {"sliding window",
       [](probes::TrainJob& j) { j.problem.model.runs.front().block.sliding_window = 4; }},
      {"learned positions",
       [](probes::TrainJob& j) {
         j.problem.model = tiny_gpt();
         j.problem.workload.seq = 1000;
       }},
      {"no rank to play",
       [](probes::TrainJob& j) {
         j.scope.kind = ScopeKind::shadow;
         j.scope.rank = 1;
       }},
      {"scope truncated", [](probes::TrainJob& j) { j.scope.kind = ScopeKind::truncated; }},
      {"global batch", [](probes::TrainJob& j) { j.candidate.micro_batch = 3; }},
      {"paged-adam8bit",
       [](probes::TrainJob& j) { j.problem.workload.optimizer = OptimizerKind::paged_adam8bit; }},
  };
  for (const Case& each : cases) {
    auto job = job_of(tiny_llama(), Precision::fp32, 2);
    each.change(job);
    try {
      run(job);
      ADD_FAILURE() << "was run: " << each.text;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr(each.text));
    }
  }
}

}  // namespace
}  // namespace planwright::worker::testing
