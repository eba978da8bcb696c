#include "launcher/classify.h"

#include <gtest/gtest.h>

#include <csignal>

namespace planwright::launcher {
namespace {

using probes::RankEnd;
using probes::RankJobReport;
using probes::RankReport;

RankReport report(int rank, RankEnd end, const std::string& message = "") {
  RankReport report;
  report.rank = rank;
  RankJobReport job;
  job.end = end;
  job.message = message;
  if (end == RankEnd::out_of_memory) {
    job.out_of_memory =
        OutOfMemory{Bytes{10}, Bytes{95}, Bytes{100}, {}, Account::logits, Phase::loss, rank};
  }
  report.jobs = {job};
  return report;
}

RankFate exited(int rank, int code, std::optional<RankReport> report = {}) {
  RankFate fate;
  fate.rank = rank;
  fate.code = code;
  fate.report = std::move(report);
  return fate;
}

RankFate well(int rank) { return exited(rank, 0, report(rank, RankEnd::ok)); }
RankFate oom(int rank) { return exited(rank, 10, report(rank, RankEnd::out_of_memory)); }
RankFate failed(int rank, const std::string& why) {
  return exited(rank, 15, report(rank, RankEnd::failed, why));
}
RankFate followed(int rank) {
  return exited(rank, 12, report(rank, RankEnd::peer_failed, "Connection closed by peer"));
}

RankFate killed(int rank, int signal, bool ordered = false) {
  RankFate fate;
  fate.rank = rank;
  fate.signal = signal;
  fate.ordered = ordered;
  return fate;
}

RankFate with_log(RankFate fate, const std::string& log) {
  fate.log_tail = log;
  return fate;
}

RankFate unstarted(int rank) {
  RankFate fate;
  fate.rank = rank;
  fate.not_started = "cannot execute x: No such file or directory";
  return fate;
}

RankFate broken_report(int rank) {
  RankFate fate = exited(rank, 0);
  fate.report_problem = "not JSON";
  return fate;
}

struct Case {
  const char* name;
  std::vector<RankFate> ranks;
  OutcomeKind kind;
  int rank;
  const char* detail;
  bool oom_killed = false;
};

TEST(Classify, NamesTheFirstCause) {
  using enum OutcomeKind;
  const std::string loader = "worker: error while loading shared libraries: libc10.so: not found\n";
  const Case cases[] = {
      {"a full device", {oom(1), followed(0)}, out_of_memory, 1, ""},
      {"a full device after its peers saw it", {followed(0), oom(1)}, out_of_memory, 1, ""},
      {"a full device beats an order", {oom(0), killed(1, SIGKILL, true)}, out_of_memory, 0, ""},
      {"host memory in a report",
       {failed(0, "std::bad_alloc"), followed(1)},
       host_out_of_memory,
       0,
       "bad_alloc"},
      {"host memory in the library's words",
       {failed(1, "DefaultCPUAllocator: can't allocate memory: you tried")},
       host_out_of_memory,
       1,
       "can't allocate"},
      {"SIGKILL by the kernel",
       {killed(1, SIGKILL), followed(0)},
       host_out_of_memory,
       1,
       "want of host memory",
       true},
      {"SIGKILL by somebody", {killed(1, SIGKILL), followed(0)}, crashed, 1, "SIGKILL"},
      {"another signal while the kernel kills elsewhere",
       {killed(0, SIGSEGV)},
       crashed,
       0,
       "SIGSEGV",
       true},
      {"abort", {killed(0, SIGABRT), killed(1, SIGTERM, true)}, crashed, 0, "SIGABRT"},
      {"an error", {followed(1), failed(0, "gloo is unwell")}, crashed, 0, "gloo is unwell"},
      {"the first of two errors", {failed(1, "first"), failed(0, "second")}, crashed, 1, "first"},
      {"an exit code without a report", {exited(0, 3)}, crashed, 0, "exit code 3"},
      {"bad_alloc without a report",
       {with_log(exited(0, 1), "what(): std::bad_alloc")},
       host_out_of_memory,
       0,
       "exit code 1"},
      {"no room for the report",
       {with_log(exited(1, 16), "much\nrank 1: cannot write r.tmp: No space left on device\n"),
        killed(0, SIGTERM, true)},
       environment,
       1,
       "rank 1 has no room for its report: rank 1: cannot write r.tmp"},
      {"a host without descriptors, taken for a failed peer",
       {exited(1, 12, report(1, RankEnd::peer_failed, "did not meet: Too many open files")),
        killed(0, SIGKILL, true)},
       environment,
       1,
       "Too many open files"},
      {"libraries that find no memory",
       {with_log(exited(0, 127), loader + "Cannot allocate memory")},
       host_out_of_memory,
       0,
       "exit code 127"},
      {"libraries missing", {with_log(exited(0, 127), loader)}, environment, 0, "libc10.so"},
      {"libraries too old",
       {with_log(exited(0, 1), "w: libc.so.6: version `GLIBC_2.99' not found (required by w)")},
       environment,
       0,
       "GLIBC_2.99"},
      {"127 for another reason", {exited(0, 127)}, crashed, 0, "127"},
      {"no such program", {unstarted(0)}, environment, 0, "cannot execute"},
      {"no report", {exited(1, 0), well(0)}, crashed, 1, "left no report"},
      {"a broken report", {broken_report(0)}, crashed, 0, "not JSON"},
      {"no answer to the peers",
       {followed(0), killed(1, SIGKILL, true)},
       hung,
       1,
       "did not answer"},
      {"only followers", {followed(0), followed(1)}, crashed, 0, "Connection closed"},
      {"a follower's exit code is enough",
       {exited(0, 12), killed(1, SIGKILL)},
       crashed,
       1,
       "SIGKILL"},
  };
  for (const Case& each : cases) {
    const auto outcome = failure_of({.ranks = each.ranks, .oom_killed = each.oom_killed});
    ASSERT_TRUE(outcome) << each.name;
    EXPECT_EQ(outcome->kind(), each.kind) << each.name;
    if (const OutOfMemory* full = outcome->out_of_memory()) {
      EXPECT_EQ(full->rank, each.rank) << each.name;
      continue;
    }
    const Failure& failure = *outcome->failure();
    EXPECT_EQ(failure.rank, each.rank) << each.name;
    EXPECT_NE(failure.detail.find(each.detail), std::string::npos)
        << each.name << ": " << failure.detail;
  }
}

TEST(Classify, RanksThatAllEndedWellAreNoFailure) {
  EXPECT_FALSE(failure_of({.ranks = {well(1), well(0)}}));
  EXPECT_FALSE(failure_of({.ranks = {well(0)}, .stopped_by = StoppedBy::deadline}))
      << "the order came too late to matter";
  EXPECT_FALSE(failure_of({.ranks = {well(0)}, .oom_killed = true})) << "somebody else's process";
}

TEST(Classify, TellsAHungRunFromASlowOne) {
  const RankFate ended = killed(0, SIGTERM, true);
  const auto hung = failure_of({.ranks = {ended, killed(1, SIGKILL, true)},
                                .stopped_by = StoppedBy::watchdog,
                                .limit_s = 20,
                                .silent_rank = 1});
  EXPECT_EQ(hung->kind(), OutcomeKind::hung);
  EXPECT_EQ(hung->failure()->detail, "rank 1 gave no sign of life for 20 s");
  EXPECT_EQ(hung->failure()->rank, 1);

  const auto slow = failure_of({.ranks = {ended, killed(1, SIGTERM, true)},
                                .stopped_by = StoppedBy::deadline,
                                .limit_s = 90});
  EXPECT_EQ(slow->kind(), OutcomeKind::timed_out);
  EXPECT_EQ(slow->failure()->detail, "still running after 90 s");
}

TEST(Classify, ACauseIsFoundThoughTheRunWasStopped) {
  const auto outcome = failure_of({.ranks = {oom(0), killed(1, SIGKILL, true)},
                                   .stopped_by = StoppedBy::deadline,
                                   .limit_s = 90});
  EXPECT_EQ(outcome->kind(), OutcomeKind::out_of_memory);
}

TEST(Classify, WhatRanksReportAfterTheOrderToEndIsNoCause) {
  RankFate upset = failed(0, "Connection reset by peer");
  upset.ordered = true;
  RunEnd end{.ranks = {upset, killed(1, SIGKILL, true)}};
  EXPECT_EQ(failure_of(end)->kind(), OutcomeKind::crashed) << "it began: nobody had been stopped";
  end.stopped_by = StoppedBy::deadline;
  EXPECT_EQ(failure_of(end)->kind(), OutcomeKind::timed_out);
}

TEST(Classify, ALostSupervisorIsACrash) {
  EXPECT_EQ(failure_of({.ranks = {}, .supervisor_lost = true})->kind(), OutcomeKind::crashed);
  EXPECT_EQ(failure_of({.ranks = {}, .oom_killed = true, .supervisor_lost = true})->kind(),
            OutcomeKind::host_out_of_memory);
}

TEST(Classify, KeepsTheEndOfALongLogFromTheStartOfALine) {
  std::string log;
  for (int i = 0; i < 5000; ++i) log += "line " + std::to_string(i) + "\n";
  const auto outcome = failure_of({.ranks = {with_log(killed(0, SIGSEGV), log)}});
  const std::string& kept = outcome->failure()->log_tail;
  EXPECT_LE(kept.size(), 8192u);
  EXPECT_TRUE(kept.starts_with("line "));
  EXPECT_TRUE(kept.ends_with("line 4999\n"));
}

TEST(Classify, MergesFingerprintsAndShowsWhereRanksDiffer) {
  RankReport a, b;
  a.environment = {{"torch", "2.11.0"}, {"host", "n1"}, {"only_a", "x"}};
  b.environment = {{"torch", "2.11.0"}, {"host", "n2"}};
  const std::map<std::string, std::string> merged{
      {"torch", "2.11.0"}, {"host", "n1 | n2"}, {"only_a", "x"}};
  EXPECT_EQ(merge_environment({a, b}), merged);
}

}  // namespace
}  // namespace planwright::launcher
