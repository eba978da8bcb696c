#include "launcher/disturbance.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/clock.h"
#include "tests/support/busy_processes.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

using testing::BusyProcesses;
using testing::TestFolder;

TEST(Disturbance, IsToldWhereItIsWorthAWord) {
  struct Case {
    std::optional<double> others;
    std::vector<double> steps_s;
    const char* text;
  };
  const Case cases[] = {
      {std::nullopt, {}, ""},
      {0.05, {0.100, 0.101}, ""},
      {0.37, {0.100, 0.101}, "other processes used 37 % of the CPUs"},
      {0.37, {}, "other processes used 37 % of the CPUs"},
      {0.0, {0.210, 0.300, 0.480}, "steps took 210 to 480 ms"},
      {0.5, {0.210, 0.480}, "other processes used 50 % of the CPUs; steps took 210 to 480 ms"},
      {0.0, {0.001, 0.005}, ""},  // a pause of the scheduler, not of the machine
      {0.0, {1.0, 1.3}, ""},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(disturbance_text(each.others, each.steps_s).value_or(""), each.text);
  }
}

TEST(Disturbance, IsWhatTheMachineDidAndThisProcessDidNot) {
  CpuUse begin{.at_s = 10, .machine_s = 100, .own_s = 5, .cpus = 4};
  const CpuUse end{.at_s = 12, .machine_s = 105, .own_s = 8, .cpus = 4};
  EXPECT_DOUBLE_EQ(share_of_others(begin, end).value(), (5.0 - 3.0) / (2.0 * 4));
  begin.own_s = 1;  // ticks are coarse
  EXPECT_DOUBLE_EQ(share_of_others(begin, end).value(), 0);
  begin.at_s = 11.9;
  EXPECT_FALSE(share_of_others(begin, end)) << "too short for the kernel's ticks";
  EXPECT_FALSE(share_of_others({}, {})) << "unknown";
}

TEST(Disturbance, CountsTheBusyTimeOfTheCpusThatThisProcessMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const TestFolder root;
  root.put("proc/stat", "cpu  9 9 9 9 9 9 9 9 9 9\ncpu" + std::to_string(first) +
                            " 100 20 30 5000 600 7 8 90 1000 1000\ncpu1023 9 9 9 9 9 9 9 9 9 9\n"
                            "intr 12 13\n");
  const CpuUse use = cpu_use(root.path());
  EXPECT_EQ(use.cpus, 1);
  EXPECT_DOUBLE_EQ(use.machine_s, (100 + 20 + 30 + 7 + 8 + 90) * tick);
  EXPECT_EQ(cpu_use(root / "nowhere").cpus, 0);
}

TEST(Disturbance, UnderAQuotaNothingIsKnownOfTheCpus) {
  const TestFolder root;
  root.put("proc/stat", "cpu0 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 1\n");
  root.put("proc/self/cgroup", "0::/\n");
  root.put("sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(cpu_use(root.path()).cpus, 0);
}

TEST(DisturbanceProcess, ABusyNeighbourIsNoticedAndAChildOfOnesOwnIsNot) {
  const double second = 1;
  {
    const CpuUse begin = cpu_use();
    const BusyProcesses neighbours;
    usleep(static_cast<useconds_t>(second * 1e6));
    const auto share = share_of_others(begin, cpu_use());
    if (!share) GTEST_SKIP() << "/proc/stat says nothing here";
    EXPECT_GT(*share, 0.3) << "not ended, hence not this process's own";
  }
  const CpuUse begin = cpu_use();
  const pid_t child = fork();
  if (child == 0) {
    const double until = monotonic_s() + second;
    while (monotonic_s() < until) {
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_GT(cpu_use().own_s - begin.own_s, 0.2 * second);
}

}  // namespace
}  // namespace planwright::launcher
