#include "real_worker.h"

#include <string_view>
#include <vector>

#include "launcher/host_rates.h"

namespace planwright::launcher {
namespace {

TEST_F(RealWorkerProcess, MeasuresAProbeOfTwoRanks) {
  const Outcome outcome = run_probe(job(3), options_);
  ASSERT_EQ(outcome.kind(), OutcomeKind::ok) << why(outcome);
  const Measurement& measured = *outcome.measurement();
  ASSERT_EQ(measured.ranks.size(), 2u);
  EXPECT_EQ(measured.steps_s.size(), 3u);
  EXPECT_EQ(measured.losses.size(), 4u) << "warm-up included";
  EXPECT_GT(measured.tokens_per_second_per_device, 0);
  for (const RankMeasurement& rank : measured.ranks) {
    EXPECT_GT(rank.allocated_peak(), Bytes{0});
    ASSERT_TRUE(rank.startup_s);
    EXPECT_GT(*rank.startup_s, 0);
    std::printf("rank %d started in %.2f s\n", rank.rank, *rank.startup_s);
  }
}

TEST_F(RealWorkerProcess, TheEnvironmentSaysWhatAMeasurementDependsOn) {
  const Outcome outcome = run_probe(job(1), options_);
  ASSERT_EQ(outcome.kind(), OutcomeKind::ok) << why(outcome);
  const auto& environment = outcome.environment;
  for (const char* key :
       {"device", "cpu_capability", "torch", "compiler", "planwright", "revision", "world",
        "threads", "host", "linux", "target", "target_version", "kernels"}) {
    ASSERT_TRUE(environment.contains(key)) << key;
    EXPECT_FALSE(environment.at(key).empty()) << key;
  }
  EXPECT_EQ(environment.at("target"), "builtin");
  EXPECT_EQ(environment.at("kernels"), "in_place");
  EXPECT_EQ(environment.at("threads"), "1");
  EXPECT_EQ(environment.at("world"), "2");
  EXPECT_EQ(environment.at("host").size(), 12u);
  for (const char* of_accelerators : {"driver", "cuda", "nccl"}) {
    EXPECT_FALSE(environment.contains(of_accelerators)) << "absent, not empty";
  }
}

TEST_F(RealWorkerProcess, RunsOutOfABudgetForReal) {
  probes::TrainJob tight = job(3);
  const Outcome roomy = run_probe(tight, options_);
  ASSERT_EQ(roomy.kind(), OutcomeKind::ok) << why(roomy);
  const Bytes peak = roomy.measurement()->allocated_peak();
  tight.memory_budget = peak - Bytes{1};
  const Outcome outcome = run_probe(tight, options_);
  ASSERT_EQ(outcome.kind(), OutcomeKind::out_of_memory) << why(outcome);
  const OutOfMemory& full = *outcome.out_of_memory();
  EXPECT_EQ(full.capacity, peak - Bytes{1});
  EXPECT_GT(full.allocated + full.requested, full.capacity);
}

TEST_F(RealWorkerProcess, ARankThatIsKilledIsACrashAndItsPeerEnds) {
  const Outcome outcome = run_and_signal_rank_1(SIGKILL);
  EXPECT_EQ(outcome.kind(), OutcomeKind::crashed) << why(outcome);
  EXPECT_EQ(outcome.failure()->rank, 1);
  EXPECT_EQ(outcome.failure()->detail, "rank 1 was ended by SIGKILL");
}

TEST_F(RealWorkerProcess, ARankThatIsStoppedIsHung) {
  options_.watchdog_s = 3;
  const Outcome outcome = run_and_signal_rank_1(SIGSTOP);
  EXPECT_EQ(outcome.kind(), OutcomeKind::hung) << why(outcome);
  EXPECT_EQ(outcome.failure()->rank, 1);
}

TEST_F(RealWorkerProcess, ARankThatStopsWhileItsPeerGivesUpIsHung) {
  options_.collective_timeout_s = 2;
  const Outcome outcome = run_and_signal_rank_1(SIGSTOP);
  EXPECT_EQ(outcome.kind(), OutcomeKind::hung) << why(outcome);
  EXPECT_EQ(outcome.failure()->rank, 1);
}

TEST_F(RealWorkerProcess, ALongJobIsEndedAtItsDeadline) {
  options_.deadline_s = 5;
  const Outcome outcome = run_probe(job(1000000), options_);
  EXPECT_EQ(outcome.kind(), OutcomeKind::timed_out) << why(outcome);
}

TEST_F(RealWorkerProcess, SeveralJobsShareTheirProcesses) {
  const JobsResult result = run_jobs({job(1), job(2)}, options_);
  ASSERT_FALSE(result.failure) << why(*result.failure);
  ASSERT_EQ(result.reports.size(), 2u);
  ASSERT_EQ(result.reports[1].jobs.size(), 2u);
  EXPECT_EQ(result.reports[1].jobs[1].measurement.steps_s.size(), 2u);
}

/// Layouts of different sizes that the same two processes can run.
std::vector<probes::TrainJob> several_jobs() {
  std::vector<probes::TrainJob> jobs;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const int zero : {1, 0}) {
      for (const int micro_batch : {4, 1}) {
        probes::TrainJob& job = jobs.emplace_back(RealWorkerProcess::job(2));
        job.problem.workload.precision = precision;
        job.problem.workload.recipe = targets::builtin::traits().recipe(precision).value();
        job.candidate.zero = zero;
        job.candidate.micro_batch = micro_batch;
      }
    }
  }
  return jobs;
}

TEST_F(RealWorkerProcess, AJobHasTheSameMemoryBehindOthersAsInFreshProcesses) {
  const std::vector<probes::TrainJob> jobs = several_jobs();
  const std::vector<Outcome> reused = run_probes(jobs, options_);
  ASSERT_EQ(reused.size(), jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Outcome fresh = run_probe(jobs[i], options_);
    ASSERT_TRUE(fresh.measurement()) << why(fresh);
    ASSERT_TRUE(reused[i].measurement()) << why(reused[i]);
    EXPECT_EQ(reused[i].measurement()->losses, fresh.measurement()->losses) << i;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const RankMeasurement& one = reused[i].measurement()->ranks[rank];
      const RankMeasurement& other = fresh.measurement()->ranks[rank];
      EXPECT_EQ(one.loaded, other.loaded) << i;
      EXPECT_EQ(one.step_end, other.step_end) << i;
      EXPECT_EQ(one.peak, other.peak) << i;
      EXPECT_EQ(one.peak_phase, other.peak_phase) << i;
      EXPECT_EQ(one.tensors, other.tensors) << i;
      EXPECT_EQ(one.tensors_phase, other.tensors_phase) << i;
    }
  }
}

TEST_F(ReuseProcess, JobsThatGoWellShareOneSet) {
  const std::vector<Outcome> outcomes = run_probes({job(1), job(2), job(3)}, options_);
  ASSERT_EQ(outcomes.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(outcomes[i].measurement()) << why(outcomes[i]);
    EXPECT_EQ(outcomes[i].measurement()->steps_s.size(), i + 1);
  }
  EXPECT_EQ(sets(), 1u);
}

TEST_F(ReuseProcess, OneThatRunsOutOfMemoryCostsTheOthersNothing) {
  probes::TrainJob tight = job(1);
  tight.memory_budget = Bytes{1000};
  const std::vector<Outcome> outcomes =
      run_probes({job(1), tight, job(2), tight, tight, job(3)}, options_);
  std::vector<std::string_view> kinds;
  for (const Outcome& outcome : outcomes) kinds.push_back(word(outcome.kind()));
  EXPECT_EQ(kinds, (std::vector<std::string_view>{"ok", "out_of_memory", "ok", "out_of_memory",
                                                  "out_of_memory", "ok"}));
  EXPECT_EQ(outcomes.at(2).measurement()->steps_s.size(), 2u);
  EXPECT_EQ(outcomes.at(5).measurement()->steps_s.size(), 3u);
  EXPECT_EQ(outcomes.at(1).environment.at("target"), "builtin");
  EXPECT_EQ(sets(), 4u) << "behind each that failed, one more";
}

TEST_F(ReuseProcess, OneThatIsKilledOrHangsKeepsWhatWasFinishedBefore) {
  struct Case {
    int signal;
    OutcomeKind kind;
  };
  for (const Case& each : {Case{SIGKILL, OutcomeKind::crashed}, Case{SIGSTOP, OutcomeKind::hung}}) {
    options_.collective_timeout_s = 1;
    signal_in_endless_job(each.signal);
    const std::vector<Outcome> outcomes = run_probes({job(1), job(1000000), job(2)}, options_);
    ASSERT_EQ(outcomes.size(), 3u);
    EXPECT_EQ(outcomes[0].kind(), OutcomeKind::ok) << why(outcomes[0]);
    ASSERT_EQ(word(outcomes[1].kind()), word(each.kind)) << why(outcomes[1]);
    EXPECT_EQ(outcomes[1].failure()->rank, 1);
    ASSERT_TRUE(outcomes[2].measurement()) << why(outcomes[2]);
    EXPECT_EQ(outcomes[2].measurement()->steps_s.size(), 2u);
  }
  EXPECT_EQ(sets(), 4u);
}

TEST_F(RealWorkerProcess, TheMicroBenchmarkGivesEveryRate) {
  const TestFolder cache;
  const RatesQuery query{2, 1, DeviceKind::cpu, "test"};
  const RatesCache where{cache.path(), false, {}};
  const HostRates rates = host_rates(query, options_, where);
  for (const double rate :
       {rates.matmul_fp32_flops_per_s, rates.matmul_bf16_flops_per_s, rates.copy_bytes_per_s,
        rates.kernel_overhead_s, rates.all_reduce_latency_s, rates.all_reduce_bytes_per_s,
        rates.broadcast_bytes_per_s}) {
    EXPECT_GT(rate, 0);
  }
  EXPECT_EQ(host_rates(query, options_, where), rates) << "cached";
}

}  // namespace
}  // namespace planwright::launcher
