#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "estimator/spec/flat_layout.h"
#include "rank_processes.h"
#include "tests/support/fake_traits.h"
#include "tests/support/training_dump.h"

namespace planwright::worker::testing {
namespace {

using planwright::testing::data_parallel;
using planwright::testing::fake_problem;
using planwright::testing::read_training_dump;
using planwright::testing::tiny_gpt;
using planwright::testing::tiny_llama;
using planwright::testing::TrainingDump;
using probes::RankEnd;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::int64_t kGlobalBatch = 12;

probes::TrainJob job_of(const ModelSpec& model, int dp, int zero, Precision precision) {
  probes::TrainJob job;
  job.problem = fake_problem(model, dp, precision);
  job.problem.workload.global_batch = kGlobalBatch;
  job.candidate = data_parallel(dp, zero, 2);
  job.scope = {.kind = ScopeKind::full, .warmup = 1, .steps = 1};
  job.bucket_elements = 2500;  // several buckets, each with padding for two and three ranks
  return job;
}

probes::ProbeRequest request_of(int world, std::vector<probes::TrainJob> jobs) {
  probes::ProbeRequest request;
  request.world = world;
  request.train = std::move(jobs);
  return request;
}

void expect_equal_tensors(const ModelSpec& model, const std::vector<double>& actual,
                          const std::vector<double>& expected, const std::string& what) {
  for (const auto& each : planwright::testing::tensor_differences(model, actual, expected)) {
    EXPECT_LE(each.relative, 1e-10) << what << " " << each.tensor;
  }
}

struct Trained {
  std::string name;
  ModelSpec model;
  TrainingDump dump;
};

/// Both kinds of model under ZeRO 0 and 1, ten SGD steps each, by one set of processes.
std::vector<Trained> train_all(int dp, const std::string& folder) {
  std::vector<probes::TrainJob> jobs;
  std::vector<Trained> all;
  for (const ModelSpec& model : {tiny_gpt(), tiny_llama()}) {
    for (const int zero : {0, 1}) {
      auto job = job_of(model, dp, zero, Precision::fp64);
      job.problem.workload.optimizer = OptimizerKind::sgd;
      job.scope = {.kind = ScopeKind::full, .warmup = 0, .steps = 10};
      job.dump = folder + "/" + std::to_string(jobs.size());
      jobs.push_back(job);
      all.push_back({"dp " + std::to_string(dp) + " zero " + std::to_string(zero), model, {}});
    }
  }
  RankProcesses ranks(request_of(dp, jobs));
  EXPECT_THAT(ranks.wait(), Each(probes::kExitOk));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    all[i].dump = read_training_dump(jobs[i].dump, all[i].model, jobs[i].candidate);
  }
  return all;
}

TEST(WorkerProcess, trains_every_data_parallel_layout_like_one_process) {
  const std::string folder = fresh_folder();
  const auto single = train_all(1, folder);
  for (const int dp : {2, 3}) {
    const auto shared = train_all(dp, folder);
    for (std::size_t i = 0; i < shared.size(); ++i) {
      const auto& [name, model, dump] = shared[i];
      const TrainingDump& alone = single[i].dump;
      EXPECT_NEAR(dump.loss, alone.loss, 1e-10 * alone.loss);
      expect_equal_tensors(model, dump.gradients, alone.gradients, name + " gradient");
      expect_equal_tensors(model, dump.weights, alone.weights, name + " weight");
    }
  }
  std::filesystem::remove_all(folder);
}

probes::TrainJob five_steps(OptimizerKind optimizer, int dp, int zero, Precision precision) {
  auto job = job_of(tiny_llama(), dp, zero, precision);
  job.problem.workload.optimizer = optimizer;
  job.scope = {.kind = ScopeKind::full, .warmup = 0, .steps = 5};
  return job;
}

TEST(WorkerProcess, trains_with_every_optimizer_on_two_ranks_like_on_one) {
  const std::string folder = fresh_folder();
  std::vector<probes::TrainJob> alone, shared;
  for (const OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion, OptimizerKind::adafactor}) {
    alone.push_back(five_steps(kind, 1, 0, Precision::fp64));
    alone.back().dump = folder + "/alone." + std::string(word(kind));
    for (const int zero : {0, 1}) {
      if (zero == 1 && kind == OptimizerKind::adafactor) continue;
      shared.push_back(five_steps(kind, 2, zero, Precision::fp64));
      shared.back().dump = folder + "/shared." + std::to_string(zero) + std::string(word(kind));
    }
  }
  for (const auto& [world, jobs] : {std::pair(1, alone), std::pair(2, shared)}) {
    RankProcesses ranks(request_of(world, jobs));
    ASSERT_THAT(ranks.wait(), Each(probes::kExitOk));
  }
  for (const probes::TrainJob& job : shared) {
    const std::string name(word(job.problem.workload.optimizer));
    const auto expected = read_training_dump(folder + "/alone." + name, tiny_llama(), {});
    expect_equal_tensors(tiny_llama(),
                         read_training_dump(job.dump, tiny_llama(), job.candidate).weights,
                         expected.weights, name + " weight");
  }
  std::filesystem::remove_all(folder);
}

/// Scaled on their way, unscaled in the dump and in the update, which is of their size under SGD.
TEST(WorkerProcess, in_fp16_has_the_gradients_of_fp64_to_a_halfs_precision) {
  const std::string folder = fresh_folder();
  std::vector<probes::TrainJob> jobs;
  for (const Precision precision : {Precision::fp64, Precision::fp16}) {
    for (const int zero : {0, 1}) {
      jobs.push_back(five_steps(OptimizerKind::sgd, 2, zero, precision));
      jobs.back().dump = folder + "/" + std::to_string(jobs.size());
    }
  }
  jobs.push_back(jobs.back());
  jobs.back().problem.workload.recipe.gradient = DType::fp16;
  jobs.back().dump = folder + "/narrow";
  RankProcesses ranks(request_of(2, jobs));
  ASSERT_THAT(ranks.wait(), Each(probes::kExitOk));
  const auto expected = read_training_dump(jobs.front().dump, tiny_llama(), jobs.front().candidate);
  for (const probes::TrainJob& job : jobs) {
    const auto actual = read_training_dump(job.dump, tiny_llama(), job.candidate);
    EXPECT_NEAR(actual.loss, expected.loss, 1e-4);
    for (const auto& part : {&TrainingDump::gradients, &TrainingDump::weights}) {
      for (const auto& each :
           planwright::testing::tensor_differences(tiny_llama(), actual.*part, expected.*part)) {
        EXPECT_LE(each.relative, 0.01) << job.dump << " " << each.tensor;
      }
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(WorkerProcess, with_zero_1_holds_its_share_of_the_optimizer_to_the_byte) {
  constexpr int kRanks = 3;
  const auto whole = job_of(tiny_llama(), kRanks, 0, Precision::bf16);
  const auto shared = job_of(tiny_llama(), kRanks, 1, Precision::bf16);
  RankProcesses ranks(request_of(kRanks, {whole, shared}));
  ASSERT_THAT(ranks.wait(), Each(probes::kExitOk));
  const std::int64_t unsharded = flat_layout(whole.problem.model, 1, whole.bucket_elements).numel;
  const std::int64_t padded = flat_layout(whole.problem.model, kRanks, whole.bucket_elements).numel;
  EXPECT_GT(padded, unsharded);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto report = ranks.report(rank);
    const Ledger& without = report.jobs[0].measurement.loaded;
    const Ledger& with = report.jobs[1].measurement.loaded;
    EXPECT_EQ(without[Account::optimizer].value, 12 * unsharded + 4);
    EXPECT_EQ(without[Account::gradients].value, 4 * unsharded);
    EXPECT_EQ(with[Account::optimizer].value, 12 * padded / kRanks + 4);
    EXPECT_EQ(with[Account::gradients].value, 4 * padded);
    EXPECT_EQ(report.jobs[1].measurement.step_end, with);
    EXPECT_EQ(report.jobs[0].losses, ranks.report(0).jobs[0].losses);
  }
}

TEST(WorkerProcess, reports_progress_environment_and_start) {
  RankProcesses ranks(request_of(1, {job_of(tiny_gpt(), 1, 0, Precision::fp32)}));
  EXPECT_EQ(ranks.next_step(0), "step 0");
  EXPECT_EQ(ranks.next_step(0), "step 1");
  EXPECT_EQ(ranks.next_step(0), "");
  EXPECT_THAT(ranks.wait(), ElementsAre(probes::kExitOk));
  const auto report = ranks.report(0);
  EXPECT_GT(report.first_step_monotonic_s, 0);
  EXPECT_EQ(report.environment.at("threads"), "1");
  EXPECT_EQ(report.environment.at("torch").substr(0, 6), "2.11.0");
  EXPECT_TRUE(report.jobs[0].measurement.startup_s.has_value());
  EXPECT_TRUE(report.jobs[0].measurement.rss_peak.has_value());
}

TEST(WorkerProcess, that_runs_out_of_memory_says_so_and_ends_the_row_of_jobs) {
  auto tight = job_of(tiny_gpt(), 1, 0, Precision::fp32);
  // The states, and a little of the forward pass: 16 bytes a parameter and the step counter.
  const Bytes budget{16 * flat_layout(tight.problem.model, 1, tight.bucket_elements).numel + 5000};
  tight.memory_budget = budget;
  RankProcesses ranks(request_of(1, {job_of(tiny_gpt(), 1, 0, Precision::fp32), tight, tight}));
  EXPECT_THAT(ranks.wait(), ElementsAre(probes::kExitDeviceOutOfMemory));
  const auto report = ranks.report(0);
  ASSERT_EQ(report.jobs.size(), 2U);
  EXPECT_EQ(report.jobs[0].end, RankEnd::ok);
  EXPECT_EQ(report.jobs[1].end, RankEnd::out_of_memory);
  ASSERT_TRUE(report.jobs[1].out_of_memory.has_value());
  const OutOfMemory& facts = *report.jobs[1].out_of_memory;
  EXPECT_EQ(facts.capacity, budget);
  EXPECT_EQ(facts.phase, Phase::forward);
  EXPECT_GT(facts.requested + facts.allocated, facts.capacity);
  EXPECT_LE(facts.allocated, facts.capacity);
}

TEST(WorkerProcess, takes_the_death_of_a_peer_for_that) {
  auto endless = job_of(tiny_llama(), 2, 1, Precision::fp32);
  endless.scope.steps = 1000000;
  RankProcesses ranks(request_of(2, {endless}));
  while (ranks.next_step(1) != "step 3") {
  }
  ranks.kill(1);
  EXPECT_THAT(ranks.wait(), ElementsAre(probes::kExitPeerFailed, -9));
  EXPECT_EQ(ranks.report(0).jobs.at(0).end, RankEnd::peer_failed);
  EXPECT_FALSE(ranks.has_report(1));
}

TEST(WorkerProcess, waits_no_longer_for_a_rank_that_never_comes_than_it_was_told) {
  auto request = request_of(2, {job_of(tiny_llama(), 2, 0, Precision::fp32)});
  request.collective_timeout_s = 1;
  RankProcesses ranks(request);
  ranks.kill(1);
  EXPECT_EQ(ranks.wait().front(), probes::kExitPeerFailed);
  EXPECT_EQ(ranks.report(0).jobs.at(0).end, RankEnd::peer_failed);
}

TEST(WorkerProcess, measures_the_rates_of_its_host) {
  probes::ProbeRequest request;
  request.world = 2;
  request.kind = probes::JobKind::benchmark;
  RankProcesses ranks(request);
  ASSERT_THAT(ranks.wait(), Each(probes::kExitOk));
  for (const int rank : {0, 1}) {
    const auto rates = ranks.report(rank).rates;
    ASSERT_TRUE(rates.has_value());
    EXPECT_EQ(rates->world, 2);
    for (const double rate :
         {rates->matmul_fp32_flops_per_s, rates->matmul_bf16_flops_per_s, rates->copy_bytes_per_s,
          rates->kernel_overhead_s, rates->all_reduce_latency_s, rates->all_reduce_bytes_per_s,
          rates->broadcast_bytes_per_s}) {
      EXPECT_GT(rate, 0);
    }
  }
}

TEST(WorkerProcess, fails_with_a_sentence_on_a_job_it_cannot_run) {
  auto wrong = job_of(tiny_gpt(), 1, 0, Precision::fp32);
  wrong.candidate.cp = 2;
  RankProcesses ranks(request_of(1, {wrong}));
  EXPECT_THAT(ranks.wait(), ElementsAre(probes::kExitFailed));
  EXPECT_EQ(ranks.report(0).jobs.at(0).end, RankEnd::failed);
  EXPECT_THAT(ranks.report(0).jobs.at(0).message, ::testing::HasSubstr("only tp, pp and dp"));
}

}  // namespace
}  // namespace planwright::worker::testing
