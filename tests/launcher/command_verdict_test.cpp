#include "launcher/command_verdict.h"

#include <gtest/gtest.h>

#include <csignal>

#include "launcher/logs/generic_format.h"
#include "launcher/logs/log_reader.h"
#include "launcher/targets/deepspeed/log.h"
#include "launcher/targets/torchtitan/log.h"

namespace planwright::launcher {
namespace {

using enum OutcomeKind;

Bytes in_gib(double size) { return countable_bytes(size * kGiB); }

struct End {
  int code = 1;
  int signal = 0;
  bool oom_killed = false;
  StoppedBy stopped_by = StoppedBy::nobody;
};

constexpr End kGood{.code = 0};
constexpr End kWatchdog{.code = 0, .signal = SIGTERM, .stopped_by = StoppedBy::watchdog};
constexpr End kDeadline{.code = 0, .signal = SIGTERM, .stopped_by = StoppedBy::deadline};

CommandEnd end_of(const std::string& log, const End& how) {
  LogReader reader(
      {targets::deepspeed::log_format(), targets::torchtitan::log_format(), generic_log_format()});
  reader.append(log);
  RankFate fate;
  fate.code = how.code;
  fate.signal = how.signal;
  fate.log_tail = log;
  CommandEnd end;
  end.run.ranks = {fate};
  end.run.oom_killed = how.oom_killed;
  end.run.stopped_by = how.stopped_by;
  end.log = reader.finish();
  return end;
}

CommandOutcome verdict(const std::string& log, const End& how = {}, int ranks = 1) {
  CommandJob job;
  job.ranks = ranks;
  job.scope = {.kind = ScopeKind::full, .warmup = 1, .steps = 2};
  job.tokens = 1200;
  job.samples = 6;
  return command_verdict(job, end_of(log, how));
}

struct Signature {
  const char* line;
  OutcomeKind kind;
  End how{};
};

/// Every row of launch_targets.md 4.8, in wordings of several versions.
const Signature kSignatures[] = {
    {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
     "capacity of 79.11 GiB of which 1.07 GiB is free. Including non-PyTorch memory, this process "
     "has 78.03 GiB memory in use. Of the allocated memory 70.50 GiB is allocated by PyTorch, and "
     "3.25 GiB is reserved by PyTorch but unallocated.",
     out_of_memory},
    {"[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
     out_of_memory},
    {"RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 1; 15.75 GiB total "
     "capacity; 13.50 GiB already allocated; 256.00 MiB free; 14.25 GiB reserved in total by "
     "PyTorch)",
     out_of_memory},
    {"RuntimeError: CUDA error: out of memory", out_of_memory},
    {"RuntimeError: CUDA driver error: out of memory", out_of_memory},
    {"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB.", out_of_memory},
    {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
     out_of_memory},
    {"RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
     out_of_memory},
    {"RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", out_of_memory},
    {"node3:88:91 [0] misc/strongstream.cc:40 NCCL WARN Cuda failure 2 'out of memory'",
     out_of_memory},
    {"torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled cuda error "
     "(run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5\nncclUnhandledCudaError: Call to "
     "CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
     out_of_memory},
    {"RuntimeError: NCCL error: unhandled cuda error: out of memory", out_of_memory},
    {"[OOM] rank 5 saved memory snapshot to /out/snapshot_rank5.pickle", out_of_memory},
    // The host, whoever says so.
    {"step 1", host_out_of_memory, {.code = 0, .signal = SIGKILL, .oom_killed = true}},
    {"Killed", host_out_of_memory, {.code = 137, .oom_killed = true}},
    {"E1231 09:00:00.000000 42 torch/distributed/elastic/multiprocessing/api.py:874] failed "
     "(exitcode: -9) local_rank: 2 (pid: 43) of binary: /usr/bin/python3",
     host_out_of_memory,
     {.oom_killed = true}},
    {"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been "
     "OOM Killed.",
     host_out_of_memory,
     {.code = 137}},
    {"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0 cgroup.", host_out_of_memory},
    {"7.0 python OUT_OF_MEMORY 0:125", host_out_of_memory},
    {"    Reason:       OOMKilled", host_out_of_memory, {.code = 137}},
    {"RuntimeError: DataLoader worker (pid 42) is killed by signal: Killed.",
     host_out_of_memory,
     {.oom_killed = true}},
    {"  traceback : Signal 9 (SIGKILL) received by PID 43",
     host_out_of_memory,
     {.oom_killed = true}},
    {"task 0 exited with code 137", host_out_of_memory, {.oom_killed = true}},
    // Whoever was killed with no word of the kernel's.
    {"step 1", crashed, {.code = 0, .signal = SIGKILL}},
    {"E1231 09:00:00.1 42 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: "
     "-9) local_rank: 2 (pid: 43) of binary: /usr/bin/python3",
     crashed},
    {"  traceback : Signal 9 (SIGKILL) received by PID 43", crashed},
    {"task 0 exited with code 137", crashed},
    {"RuntimeError: [enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: "
     "you tried to allocate 4096000 bytes.",
     host_out_of_memory},
    // What comes of another rank's end, and what comes of none.
    {"[rank1]:[E1231 09:00:00.1 ProcessGroupNCCL.cpp:633] [Rank 1] Watchdog caught collective "
     "operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600004 "
     "milliseconds before timing out.",
     hung, End{.code = 0, .signal = SIGABRT}},
    {"RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv "
     "operation to complete",
     hung},
    {"RuntimeError: [gloo/transport/tcp/pair.cc:525] Application timeout caused pair closure",
     hung},
    {"RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4711",
     crashed},
    {"torch.distributed.elastic.multiprocessing.api.SignalException: Process 42 got signal: 15",
     crashed},
    {"E1231 09:00:00.1 42 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: "
     "-6) local_rank: 2 (pid: 43) of binary: /usr/bin/python3",
     crashed},
};

TEST(CommandVerdict, KnowsEverySignatureInTheLog) {
  for (const Signature& each : kSignatures) {
    const std::string log = std::string(each.line) + "\n";
    EXPECT_EQ(verdict(log, each.how).outcome.kind(), each.kind) << each.line;
    const std::string others =
        "[rank6]: RuntimeError: Connection closed by peer\n[rank7]:[E ProcessGroupNCCL.cpp:633] "
        "Watchdog caught collective operation timeout\n";
    const bool cause = each.kind == out_of_memory || each.kind == host_out_of_memory;
    EXPECT_EQ(verdict(others + log + others, each.how).outcome.kind(), cause ? each.kind : hung)
        << each.line;
  }
}

TEST(CommandVerdict, KeepsTheFiguresOfADeviceThatRanFull) {
  const CommandOutcome ended = verdict("[rank3]: " + std::string(kSignatures[0].line) + "\n");
  const OutOfMemory* full = ended.outcome.out_of_memory();
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(full->rank, 3);
  EXPECT_EQ(full->requested, in_gib(2));
  EXPECT_EQ(full->allocated, in_gib(70.5));
  EXPECT_EQ(full->reserved, in_gib(73.75));
  EXPECT_EQ(full->capacity, in_gib(79.11));
}

const std::string kKilled = "failed (exitcode: -9) local_rank: 0 (pid: 9)\n";

TEST(CommandVerdict, SaysWhoseWordItGives) {
  const auto detail = [](const std::string& log, const End& how = {}) {
    const CommandOutcome ended = verdict(log, how);
    return ended.outcome.failure() == nullptr ? std::string() : ended.outcome.failure()->detail;
  };
  EXPECT_EQ(detail("[rank2]: ValueError: odd\n[rank0]: KeyError: 'late'\n"),
            "the command ended with exit code 1; rank 2: ValueError: odd");
  EXPECT_EQ(detail("oh no\n", {.code = 3}), "the command ended with exit code 3; oh no");
  const std::string report = "failed (exitcode: 2) local_rank: 0 (pid: 9)\nChildFailedError: \n";
  EXPECT_EQ(detail("usage: t.py\nt.py: error: no such argument: --foo\n" + report),
            "the command ended with exit code 1; t.py: error: no such argument: --foo");
  EXPECT_EQ(detail("KeyError: 'own'\n" + report),
            "the command ended with exit code 1; KeyError: 'own'");
  EXPECT_EQ(detail("step 1\nfailed (exitcode: -11) local_rank: 0 (pid: 9)\n"),
            "the command ended with exit code 1; rank 0 was ended by signal 11")
      << "of a signal the script knows nothing";
  EXPECT_EQ(detail("[rank0]: RuntimeError: Connection closed by peer\n"
                   "failed (exitcode: 3) local_rank: 1 (pid: 9)\n"),
            "the command ended with exit code 1; rank 1 ended with exit code 3")
      << "what a peer's end explains yields to how the peer ended";
  EXPECT_EQ(detail("step 1\n" + kKilled),
            "the command ended with exit code 1; rank 0 was killed "
            "by signal 9");
  EXPECT_EQ(detail("step 1\n" + kKilled, {.oom_killed = true}),
            "the kernel ended rank 0 for want of host memory");
  EXPECT_EQ(detail("", {.code = 0, .signal = SIGKILL}), "the command was killed by signal 9");
  EXPECT_EQ(detail("ValueError: odd\n", kWatchdog),
            "no step and no other sign of life for 0 s; its log says \"ValueError: odd\"");
  EXPECT_NE(detail("ValueError: odd\n", kGood).find("; its log says \"ValueError"),
            std::string::npos);
}

const std::string kSteps = "step 1 step_time=9\nstep 2 step_time=0.5\nstep 3 step_time=0.25\n";
const std::string kFull = "torch.OutOfMemoryError: CUDA out of memory.\n";

TEST(CommandVerdict, TakesTheLogsWordForAStepOnlyIfNothingSpeaksAgainstIt) {
  struct Case {
    std::string log;
    End how;
    OutcomeKind kind;
  };
  const Case cases[] = {
      {kSteps, kGood, ok},
      {kSteps, kDeadline, ok},
      {kSteps, kWatchdog, ok},
      {kSteps, {.code = 0, .signal = SIGSEGV}, ok},
      {kSteps + "ValueError: at exit\n", {.code = 1}, ok},
      {kFull + kSteps, kGood, ok},
      {kFull + kSteps, kDeadline, ok},
      {kSteps + kFull, kGood, out_of_memory},
      {kSteps + kFull, kDeadline, out_of_memory},
      {kFull + kSteps, {.code = 1}, out_of_memory},
      {kSteps + kKilled, {.code = 1}, ok},
      {kSteps + kKilled, End{.oom_killed = true}, host_out_of_memory},
      {kSteps + kKilled, kDeadline, ok},
      {kSteps + kKilled, End{.oom_killed = true, .stopped_by = StoppedBy::deadline},
       host_out_of_memory},
      {"step 1 step_time=9\nstep 2 step_time=0.5\n", {.code = 1}, crashed},
      {"step 1 step_time=9\n", kGood, crashed},
      {kSteps + "CUBLAS_STATUS_NOT_INITIALIZED\n", {.code = 1}, ok},
      {"step 1 loss=2 step_time=9\nstep 2 loss=nan step_time=1\nstep 3 loss=2 step_time=1\n", kGood,
       crashed},
      {"[rank0]: step 1 loss=nan step_time=9\n[rank0]: step 2 loss=nan step_time=1\n"
       "[rank1]: step 1 loss=2.5 step_time=9\n[rank1]: step 2 loss=1.5 step_time=2\n",
       kGood, ok},
  };
  for (const Case& each : cases) {
    const CommandOutcome ended = verdict(each.log, each.how);
    EXPECT_EQ(ended.outcome.kind(), each.kind) << each.log;
    EXPECT_EQ(ended.witness.has_value(), each.kind == ok) << each.log;
  }
}

TEST(CommandVerdict, TakesTimesAndLossesOfTheSlowestRankAndAllOfThem) {
  const CommandOutcome ended = verdict(
      "[rank0]: step 1 loss=4 step_time=9\n[rank1]: step 1 loss=2 step_time=9\n"
      "[rank0]: step 2 loss=3 step_time=0.5 peak_memory=2 GiB\n"
      "[rank1]: step 2 loss=nan step_time=0.75 max_memory_reserved=3 GiB\n",
      kGood, 2);
  const Measurement& measured = *ended.outcome.measurement();
  EXPECT_EQ(measured.steps_s, (std::vector<double>{0.75}));
  EXPECT_EQ(measured.tokens_per_second_per_device, 1200 / 0.75 / 2);
  EXPECT_EQ(measured.losses, (std::vector<double>{3, 3}));
  ASSERT_EQ(measured.ranks.size(), 2u);
  EXPECT_EQ(measured.ranks[0].whole_peak, in_gib(2));
  EXPECT_FALSE(measured.ranks[1].whole_peak);
  EXPECT_EQ(measured.ranks[1].reserved_peak, in_gib(3));
}

TEST(CommandVerdict, LeavesOutTheWarmUpAndNoLineMore) {
  const auto steps = [](const std::string& log) {
    const CommandOutcome ended = verdict(log, kGood);
    const Measurement* measured = ended.outcome.measurement();
    return measured == nullptr ? std::vector<double>() : measured->steps_s;
  };
  const std::vector<double> behind = {0.5, 0.25};
  EXPECT_EQ(steps(kSteps), behind);
  EXPECT_EQ(steps("step_time=9\nstep_time=0.5\nstep_time=0.25\n"), behind) << "no numbers";
  EXPECT_EQ(steps("step 0 step_time=9\nstep 1 step_time=0.5\nstep 2 step_time=0.25\n"), behind);
  EXPECT_EQ(steps("step 0 loss=2\n" + kSteps), behind) << "before any step was made";
  EXPECT_EQ(steps("step 0 1200 tokens/s\nstep 1 2400 tokens/s\nstep 2 4800 tokens/s\n"), behind);
}

TEST(CommandVerdict, KnowsTheSizeOfAStepFromItsJob) {
  const auto step_s = [](const std::string& log) {
    const CommandOutcome ended = verdict(log, kGood, 2);
    const Measurement* measured = ended.outcome.measurement();
    return measured == nullptr ? -1 : measured->step_time_s;
  };
  EXPECT_EQ(step_s("step 5: 2400 tokens/s\n"), 0.5);
  EXPECT_EQ(step_s("step: 5 loss: 1 memory: 3.00GiB(9.00%) tps: 2,400\n"), 0.25);
  EXPECT_EQ(step_s("step 5 samples/s: 12\n"), 0.5);
}

TEST(CommandVerdict, WarnsOfWhatTheLogLeavesOpen) {
  struct Case {
    std::string log;
    std::vector<const char*> warnings;
    End how = kGood;
  };
  const std::string peak = "peak memory: 2 GiB\n";
  const Case cases[] = {
      {kSteps + peak, {}},
      {kSteps, {"states no peak of memory"}},
      {"step 2 step_time=1\n" + peak,
       {"only 1 of 2 steps were measured: the script logged no more"}},
      {"RunningAvgSamplesPerSec=3, MemAllocated=1GB\n, SamplesPerSec=3\n" + peak,
       {"only 1 of 2", "the mean of all steps only"}},
      {kFull + kSteps + peak, {"the log says \"torch.OutOfMemoryError: CUDA out of memory.\""}},
      {kSteps + peak, {"was ended at its deadline of 0 s, after its steps"}, kDeadline},
      {kSteps + peak, {"gave no sign of life for 0 s after its steps"}, kWatchdog},
      {kSteps + peak, {"ended with exit code 1 after its steps were measured"}, {}},
      {kSteps + peak + "[titan] WARNING - 2 CUDA memory allocation retries.\n",
       {"2 times at least"}},
      {kSteps + peak +
           "[WARNING] [stage3.py:9:step] 7 pytorch allocator cache flushes since last "
           "step. this happens when there is high memory pressure\n",
       {"7 times at least"}},
  };
  for (const Case& each : cases) {
    const CommandOutcome ended = verdict(each.log, each.how);
    ASSERT_EQ(ended.outcome.kind(), ok) << each.log;
    ASSERT_EQ(ended.warnings.size(), each.warnings.size()) << each.log;
    for (std::size_t i = 0; i < each.warnings.size(); ++i) {
      EXPECT_NE(ended.warnings[i].find(each.warnings[i]), std::string::npos) << ended.warnings[i];
    }
  }
}

TEST(CommandVerdict, OfRatesWithoutTheSizeOfAStepSaysSo) {
  CommandJob job;
  const CommandOutcome ended = command_verdict(job, end_of("step 9: 500 tokens/s\n", kGood));
  EXPECT_NE(ended.outcome.failure()->detail.find("size of a step"), std::string::npos);
}

TEST(CommandVerdict, AReportAndTheObserverGoBeforeTheLog) {
  CommandEnd end = end_of(kSteps, kGood);
  ObservedStep step;
  step.step = 2;
  step.time_s = 7;
  end.observed.emplace_back().steps = {step};
  const CommandJob job;
  EXPECT_EQ(command_verdict(job, end).witness, Witness::observer);
  end.report.emplace().step_time_s = 8;
  EXPECT_EQ(command_verdict(job, end).witness, Witness::report);
  EXPECT_EQ(command_verdict(job, end).outcome.measurement()->step_time_s, 8);
}

TEST(CommandVerdict, APlanThatDoesNotTrainIsNoneWhoeverMeasuredIt) {
  const std::string log = "step 1 loss=2 step_time=9\nstep 2 loss=nan step_time=1\n";
  CommandEnd by_log = end_of(log, kGood), by_observer = end_of("", kGood);
  CommandEnd by_report = end_of("", kGood);
  ObservedStep step;
  step.step = 2;
  step.time_s = 7;
  by_observer.observed.emplace_back().steps = {step};
  by_log.observed = by_observer.observed;
  by_observer.observed.front().lost = true;
  by_report.report.emplace().step_time_s = 8;
  by_report.report->lost_step = 5;
  struct Case {
    CommandEnd end;
    const char* why;
  };
  const Case cases[] = {
      {by_log, "the plan does not train: the loss of step 2 is not a finite number"},
      {by_report, "the plan does not train: the loss of step 5 is not a finite number"},
      {by_observer,
       "the plan does not train: after 1 steps, parameters of rank 0 are not finite numbers"},
  };
  for (const Case& each : cases) {
    const CommandOutcome ended = command_verdict({}, each.end);
    EXPECT_FALSE(ended.witness) << each.why;
    ASSERT_NE(ended.outcome.failure(), nullptr) << each.why;
    EXPECT_EQ(ended.outcome.failure()->detail, each.why);
  }
}

}  // namespace
}  // namespace planwright::launcher
