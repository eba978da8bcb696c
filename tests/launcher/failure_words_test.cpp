#include "launcher/failure_words.h"

#include <gtest/gtest.h>

#include "launcher/logs/log_reader.h"

namespace planwright::launcher {
namespace {

const std::string kClosed = "RuntimeError: [gloo/tcp/pair.cc:547] Connection closed by peer";

std::string said(int rank, const std::string& words) {
  return "[rank" + std::to_string(rank) + "]: " + words + "\n";
}

std::string exit_entry(int rank, int code) {
  return "  rank      : " + std::to_string(rank) +
         " (local_rank: 0)\n  exitcode  : " + std::to_string(code) + " (pid: 43)\n  traceback : \n";
}

/// torchrun's, with the rank that it blames.
std::string report(const std::string& first, const std::string& others = "") {
  return "E1231 09:00:00.2 42 torch/distributed/elastic/multiprocessing/api.py:986] failed "
         "(exitcode: 1) local_rank: 0 (pid: 43) of binary: python\nFailures:\n" +
         others + "Root Cause (first observed failure):\n" + first + "====\n";
}

ObservedProcess observed(int rank, std::size_t steps, const std::string& error = "",
                         double ended_unix_s = 0) {
  ObservedProcess process;
  process.rank = rank;
  process.steps.resize(steps);
  process.error = error;
  process.ended_unix_s = ended_unix_s;
  return process;
}

std::string words_of(const std::string& log, const std::vector<ObservedProcess>& observed) {
  LogReader reader({});
  reader.append(log);
  CommandEnd end;
  end.run.ranks.emplace_back().code = 1;
  end.run.ranks.front().log_tail = log;
  end.observed = observed;
  end.log = reader.finish();
  return failure_words(end, cause_in_log(end.log));
}

TEST(FailureWords, AreOfTheRankWhoseEndNoOtherExplains) {
  struct Case {
    const char* what;
    std::string log;
    std::vector<ObservedProcess> observed;
    std::string words;
  };
  const std::string refused = "I refuse\n" + said(0, kClosed);
  const Case cases[] = {
      {"an exception",
       said(0, kClosed) + report(exit_entry(1, 1), exit_entry(0, -15)),
       {observed(0, 2, kClosed), observed(1, 2, "ValueError: odd")},
       "rank 1: ValueError: odd"},
      {"the first of two",
       "",
       {observed(0, 2, "KeyError: 'late'", 7.5), observed(1, 2, "ValueError: odd", 7.25)},
       "rank 1: ValueError: odd"},
      {"one that only the log has",
       said(0, kClosed) + said(1, "ValueError: odd"),
       {observed(0, 2, kClosed)},
       "rank 1: ValueError: odd"},
      {"a signal",
       said(0, kClosed) + report(exit_entry(1, -11), exit_entry(0, -15)),
       {observed(0, 2, kClosed), observed(1, 2)},
       "rank 1 was ended by signal 11"},
      {"a signal of a rank that torchrun found behind its peer",
       said(0, kClosed) + report(exit_entry(0, 1), exit_entry(2, -15) + exit_entry(1, -9)),
       {observed(0, 2, kClosed), observed(1, 2), observed(2, 2)},
       "rank 1 was killed by signal 9"},
      {"an exit",
       refused + report(exit_entry(1, 3), exit_entry(0, -15)),
       {observed(0, 2, kClosed), observed(1, 2)},
       "rank 1 ended with exit code 3; printed before its peers failed: \"I refuse\""},
      {"an exit that nobody observed",
       said(0, kClosed) + report(exit_entry(1, 3)),
       {},
       "rank 1 ended with exit code 3"},
      {"a good exit",
       said(0, kClosed) + report(exit_entry(0, 1), exit_entry(2, -15)),
       {observed(0, 2, kClosed), observed(1, 2), observed(2, 2)},
       "rank 1 ended before its peers, without an error; rank 0: " + kClosed},
      {"nobody who is known",
       said(0, kClosed),
       {observed(0, 2, kClosed), observed(1, 2)},
       "rank 0: " + kClosed},
      {"somebody outside",
       "step 1\n" + report(exit_entry(0, -15)),
       {observed(0, 2)},
       "rank 0 was ended by signal 15"},
      {"a script with words of its own", "no corpus\n" + report(exit_entry(1, 2)), {}, "no corpus"},
      {"a script without",
       report(exit_entry(1, 2), exit_entry(0, -15)),
       {},
       "rank 1 ended with exit code 2"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(words_of(each.log, each.observed), each.words) << each.what;
  }
}

TEST(FailureWords, WhatAPeersEndLooksLikeIsNobodysOwnError) {
  for (const char* error :
       {"RuntimeError: [gloo/transport/tcp/pair.cc:538] Read error [::1]:9: Connection reset by "
        "peer",
        "RuntimeError: [gloo/transport/tcp/pair.cc:300] writev [::1]:9: Broken pipe",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote "
        "process exited or there was a network error, NCCL version 2.27.5\nncclRemoteError: A call "
        "failed possibly due to a network error or a remote process exiting prematurely.\nLast "
        "error:\nsocketProgress: Connection closed by remote peer node1<4242>",
        "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.",
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely "
        "closed. Did the remote server shutdown or crash?",
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while "
        "waiting for send/recv from rank 0."}) {
    CommandEnd end;
    end.observed = {observed(0, 2, error)};
    EXPECT_EQ(own_error(end), "") << error;
  }
}

}  // namespace
}  // namespace planwright::launcher
