#include "launcher/reported_exits.h"

#include <gtest/gtest.h>

namespace planwright::launcher {
namespace {

const std::string kNotice =
    "E1231 09:00:00.2 42 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: "
    "-11) local_rank: 1 (pid: 43) of binary: python\n";

std::string entry(int rank, int code) {
  return "[0]:\n  time      : 2026-12-31_09:00:00\n  host      : node1\n  rank      : " +
         std::to_string(rank) + " (local_rank: 1)\n  exitcode  : " + std::to_string(code) +
         " (pid: 43)\n  error_file: <N/A>\n  traceback : Signal 11 (SIGSEGV) received by PID 43\n";
}

const std::string kFirst = "----\nRoot Cause (first observed failure):\n";

TEST(ReportedExits, HaveTheFirstFailureOfEachNodeBeforeTheOthers) {
  struct Case {
    std::string log;
    std::vector<RankExit> exits;
  };
  const std::string one =
      kNotice + "====\ntrain.py FAILED\n----\nFailures:\n" + entry(4, -15) + kFirst + entry(5, -11);
  const std::string other = "Failures:\n  <NO_OTHER_FAILURES>\n" + kFirst + entry(9, 1);
  const Case cases[] = {
      {"", {}},
      {"step 1\n  exitcode  : 3\n", {}},
      {kNotice, {{1, -11}}},
      {kNotice + "====\ntrain.py FAILED\nFailures:\n" + entry(4, -15), {{1, -11}}},
      {"step 1\n" + one, {{5, -11}, {4, -15}}},
      {one + other, {{5, -11}, {9, 1}, {4, -15}}},
  };
  for (const Case& each : cases) EXPECT_EQ(reported_exits(each.log), each.exits) << each.log;
}

TEST(ReportedExits, AreToldInWords) {
  EXPECT_EQ(told(RankExit{1, -9}), "rank 1 was killed by signal 9");
  EXPECT_EQ(told(RankExit{0, -11}), "rank 0 was ended by signal 11");
  EXPECT_EQ(told(RankExit{2, 0}), "rank 2 ended with exit code 0");
}

}  // namespace
}  // namespace planwright::launcher
