#include "launcher/own_words.h"

#include <gtest/gtest.h>

namespace planwright::launcher {
namespace {

const std::string kNotice =
    "W1231 09:00:00.1 42 torch/distributed/run.py:851] Setting OMP_NUM_THREADS to 1\n";
const std::string kFailed =
    "E1231 09:00:00.2 42 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: "
    "2) local_rank: 0 (pid: 43) of binary: python\n";
const std::string kReport =
    kFailed +
    "Traceback (most recent call last):\n"
    "  File \"/lib/torch/distributed/launcher/api.py\", line 317, in launch_agent\n"
    "    raise ChildFailedError(\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "====\ntrain.py FAILED\n  exitcode  : 2 (pid: 43)\n====\n";
const std::string kUsage = "usage: train.py [-h]\n";
const std::string kRefusal = "train.py: error: unrecognized arguments: --foo";

TEST(OwnWords, StandBeforeTheLaunchersReport) {
  struct Case {
    std::string log, words;
  };
  const Case cases[] = {
      {kNotice + kUsage + kRefusal + "\n" + kUsage + kReport, kRefusal},
      {kUsage + "[default0]:" + kRefusal + "\nstill loading\n" + kReport, kRefusal},
      {kNotice + "no corpus at /data\n" + kReport, "no corpus at /data"},
      {"no corpus\nW1231 09:00:00.1 42 api.py:1012] Sending process 44 closing signal SIGTERM\n" +
           std::string("rank 1 is told to end\n") + kReport,
       "no corpus"},
      {"no corpus\n[rank0]:[W1231 09:00:00.1 ProcessGroupNCCL.cpp:1538] Warning: not called\n" +
           kReport,
       "no corpus"},
      {"no corpus\nTraceback (most recent call last):\n"
       "  File \"/bin/starter\", line 8, in <module>\n"
       "  File \"/lib/starter/commands/launch.py\", line 999, in simple_launcher\n"
       "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)\n"
       "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 2.\n",
       "no corpus"},
      {"[2026] [INFO] [launch.py:245:main] process 1 spawned\nno corpus\n"
       "[2026] [INFO] [launch.py:253:sigkill_handler] Killing subprocess 25273\n",
       "no corpus"},
      {"no corpus\nsrun: error: node1: task 0: Exited with exit code 2\n", "no corpus"},
      {"parser: error: expected a name\nno corpus\n", "no corpus"},
      {"\x1b[31mno corpus\x1b[0m\r\n\n", "no corpus"},
      {kNotice + kReport, ""},
      {"", ""},
  };
  for (const Case& each : cases) EXPECT_EQ(own_words(each.log), each.words) << each.log;
}

TEST(OwnWords, AreNotTheReports) {
  const std::string log = "ValueError: odd\n" + kReport;
  EXPECT_TRUE(is_of_report("train.py FAILED", log));
  EXPECT_FALSE(is_of_report("ValueError: odd", log));
  EXPECT_FALSE(is_of_report("said nowhere", log));
  EXPECT_FALSE(is_of_report("ValueError: odd", "ValueError: odd\n"));
}

}  // namespace
}  // namespace planwright::launcher
