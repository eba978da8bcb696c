#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/logs/failure_signs.h"
#include "launcher/logs/generic_format.h"
#include "launcher/logs/log_reader.h"

namespace planwright::launcher {
namespace {

LogSummary read(const std::string& text) {
  LogReader reader({});
  reader.append(text);
  return reader.finish();
}

OutcomeKind kind(const std::string& text) {
  const auto cause = cause_in_log(read(text));
  return cause ? cause->failure.kind : OutcomeKind::ok;
}

Bytes in_gib(double size) { return countable_bytes(size * kGiB); }

struct Case {
  const char* line;
  OutcomeKind kind;
};

TEST(LogFailures, AreToldApartByTheirWords) {
  using enum OutcomeKind;
  const Case cases[] = {
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.", out_of_memory},
      {"torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB.",
       out_of_memory},
      {"RuntimeError: CUDA error: out of memory", out_of_memory},
      {"RuntimeError: CUDA driver error: out of memory", out_of_memory},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
       out_of_memory},
      {"node7:88:91 [0] misc/strongstream.cc:40 NCCL WARN Cuda failure 2 'out of memory'",
       out_of_memory},
      {"RuntimeError: MPS backend out of memory (MPS allocated: 8.50 GB, max allowed: 9.07 GB).",
       out_of_memory},
      {"RuntimeError: [enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate "
       "memory: "
       "you tried to allocate 4096000 bytes.",
       host_out_of_memory},
      {"terminate called after throwing an instance of 'std::bad_alloc'", host_out_of_memory},
      {"OSError: [Errno 12] Cannot allocate memory", host_out_of_memory},
      {"[99.5] Out of memory: Killed process 4242 (python) total-vm:1kB", host_out_of_memory},
      {"slurmstepd: error: Detected 2 oom_kill events in StepId=1.0.", host_out_of_memory},
      {"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0 cgroup.", host_out_of_memory},
      {"    Reason:       OOMKilled", host_out_of_memory},
      {"ran for 600004 milliseconds before timing out.", hung},
      {"RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for "
       "recv operation to complete",
       hung},
      {"RuntimeError: Rank 0 timed out in monitoredBarrier after 30000 ms.", hung},
      {"ProcessGroupNCCL's watchdog got stuck for 480 seconds", hung},
      {"RuntimeError: Connection refused", environment},
      {"OSError: [Errno 98] Address already in use", environment},
      {"ImportError: libcudart.so.12: cannot open shared object file", environment},
      {"sh: 1: torchrun: command not found", environment},
      {"python: can't open file '/opt/train.py': [Errno 2] No such file or directory", environment},
      {"OSError: [Errno 28] No space left on device", environment},
      {"RuntimeError: No CUDA GPUs are available", environment},
      {"RuntimeError: Connection reset by peer", crashed},
      {"RuntimeError: CUDA error: an illegal memory access was encountered", crashed},
      {"Segmentation fault (core dumped)", crashed},
      {"KeyboardInterrupt", crashed},
      {"my.module.OddException: it broke", crashed},
      {"AssertionError", crashed},
      // What only looks like one.
      {"[W1231 09:00:00.1 socket.cpp:752] [c10d] failed to connect (errno: 111 - Connection "
       "refused).",
       ok},
      {"[W socket.cpp:436] [c10d] failed to connect (errno: 111 - Connection refused).", ok},
      {"2026-01-05 WARNING retrying: Connection reset by peer", ok},
      {"max error: 0.5", ok},
      {"no ErrorHere", ok},
      {"the Error: none", ok},
  };
  for (const Case& each : cases)
    EXPECT_EQ(kind(each.line + std::string("\n")), each.kind) << each.line;
}

TEST(LogFailures, WhatWasKilledRanOutOfHostMemoryIfTheKernelSaysSo) {
  for (const std::string line :
       {"RuntimeError: DataLoader worker (pid 42) is killed by signal: Killed.",
        "E1231 09:00:00.000000 42 torch/distributed/elastic/multiprocessing/api.py:874] failed "
        "(exitcode: -9) local_rank: 2 (pid: 43) of binary: python",
        "  traceback : Signal 9 (SIGKILL) received by PID 43", "Terminated, exit code 137",
        "task 0 exited with code 137"}) {
    const LogSummary summary = read("[rank0]: ValueError: x\n" + line + "\n");
    EXPECT_EQ(cause_in_log(summary)->failure.kind, OutcomeKind::crashed) << line;
    const auto cause = cause_in_log(summary, true);
    EXPECT_EQ(cause->failure.kind, OutcomeKind::host_out_of_memory) << line;
    EXPECT_FALSE(cause->failure.consequence) << line;
  }
}

TEST(LogFailures, EverySignIsFoundInALineOfItsOwnWords) {
  for (const FailureSign& sign : failure_signs()) {
    std::string line(sign.pattern);
    for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
             {"{rank}", "3"}, {"{number}", "1"}, {"{^}", ""}, {"{*}", "x "}}) {
      for (auto at = line.find(field); at != line.npos; at = line.find(field)) {
        line.replace(at, field.size(), value);
      }
    }
    EXPECT_NE(kind(line + " \n"), OutcomeKind::ok) << sign.pattern;
  }
}

TEST(LogFailures, KeepTheSizesOfEveryWordingOfOutOfMemory) {
  const auto details = [](const std::string& line) {
    return cause_in_log(read(line + "\n")).value().failure.out_of_memory.value();
  };
  const LoggedOutOfMemory now = details(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a total "
      "capacity of 79.00 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this "
      "process "
      "has 78.50 GiB memory in use. Of the allocated memory 70.25 GiB is allocated by PyTorch, "
      "with "
      "1.50 GiB allocated in private pools (e.g., CUDA Graphs), and 4.25 GiB is reserved by "
      "PyTorch "
      "but unallocated.");
  EXPECT_EQ(now, (LoggedOutOfMemory{in_gib(2.5), in_gib(70.25), in_gib(74.5), in_gib(0.5),
                                    in_gib(79), 5}));
  const LoggedOutOfMemory misspelt = details(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a "
      "total capacty of 15.75 GiB of which 16.00 MiB is free. Process 7 has 15.70 GiB memory in "
      "use. "
      "Of the allocated memory 14.00 GiB is allocated by PyTorch, and 0.50 GiB is reserved by "
      "PyTorch but unallocated.");
  EXPECT_EQ(misspelt.capacity, in_gib(15.75));
  EXPECT_EQ(misspelt.reserved, in_gib(14.5));
  const LoggedOutOfMemory old = details(
      "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 1; 15.75 GiB total "
      "capacity; 13.50 GiB already allocated; 256.00 MiB free; 14.25 GiB reserved in total by "
      "PyTorch)");
  EXPECT_EQ(old, (LoggedOutOfMemory{in_gib(0.5), in_gib(13.5), in_gib(14.25), in_gib(0.25),
                                    in_gib(15.75), 1}));
  const LoggedOutOfMemory older = details(
      "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 1; 15.75 GiB total "
      "capacity; 13.50 GiB already allocated; 256.00 MiB free; 14.00 GiB cached)");
  EXPECT_EQ(older.reserved, in_gib(14));
  const LoggedOutOfMemory host = details(
      "RuntimeError: [enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: "
      "you tried to allocate 4096000 bytes. Error code 12 (Cannot allocate memory)");
  EXPECT_EQ(host.requested, Bytes{4096000});
}

TEST(LogFailures, OfOneRankAreNotTakenForAnothers) {
  const LogSummary summary = read(
      "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n"
      "[rank0]:   File \"a.py\", line 1, in f\n[rank1]:   File \"a.py\", line 2, in g\n"
      "[rank0]:     raise RuntimeError  # CUDA out of memory\n[rank2]: a line: of another rank\n"
      "[rank1]: Odd: one\n[rank0]: KeyError: 'two'\n[rank1]: ValueError: late\n");
  ASSERT_EQ(summary.failures.size(), 2U);
  EXPECT_EQ(summary.failures.at(0).line, "KeyError: 'two'");
  EXPECT_EQ(summary.failures.at(1).line, "Odd: one");
  EXPECT_EQ(cause_in_log(summary)->rank, 1);
}

TEST(LogFailures, ADeviceThatRanFullExplainsAllOthers) {
  const std::string closed = "[rank0]: RuntimeError: Connection closed by peer\n";
  const std::string hung = "[rank1]: ran for 9 milliseconds before timing out\n";
  const std::string broke = "[rank2]: ValueError: x\n";
  const std::string full = "[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n";
  EXPECT_EQ(cause_in_log(read(closed))->rank, 0);
  EXPECT_EQ(cause_in_log(read(closed + hung))->rank, 1);
  EXPECT_EQ(cause_in_log(read(closed + hung + broke))->rank, 2);
  EXPECT_EQ(cause_in_log(read(closed + hung + broke + full))->rank, 3);
  EXPECT_EQ(read("[rank0]: ValueError: x\n[rank0]: CUDA out of memory\n").failures.at(0).kind,
            OutcomeKind::out_of_memory);
  EXPECT_FALSE(cause_in_log(read("all is well\n")));
}

TEST(LogFailures, OfWhatStepsWereMadeWithoutExplainNothing) {
  const std::string missing = "ModuleNotFoundError: No module named 'triton'\n";
  const std::string step = "step 1 step_time=1\n", broke = "ValueError: x\n";
  const auto kind_of = [](const std::string& text) {
    LogReader reader({generic_log_format()});
    reader.append(text);
    return cause_in_log(reader.finish())->failure.kind;
  };
  EXPECT_EQ(kind_of(missing + broke), OutcomeKind::environment);
  EXPECT_EQ(kind_of(missing + step), OutcomeKind::environment);
  EXPECT_EQ(kind_of(missing + step + broke), OutcomeKind::crashed);
  EXPECT_EQ(kind_of(missing + step + "Connection closed by peer\n"), OutcomeKind::environment);
}

TEST(LogFailures, AreKeptAsOneLineThatCanBeShown) {
  const LogSummary summary = read("ValueError: \x1b[31mb\xFF" + std::string(3000, 'x') + "\n");
  const std::string& line = summary.failures.at(std::nullopt).line;
  EXPECT_EQ(line.substr(0, 17), "ValueError: b\xEF\xBF\xBDx");
  EXPECT_LE(line.size(), 1024U);
}

}  // namespace
}  // namespace planwright::launcher
