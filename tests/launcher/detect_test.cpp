#include <gtest/gtest.h>

#include "estimator/spec/error.h"
#include "launcher/detect/cgroup.h"
#include "launcher/detect/gpus.h"
#include "launcher/detect/host.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

using testing::TestFolder;

constexpr std::int64_t kGi = std::int64_t{1} << 30;

/// Two packages of two cores with two threads each.
std::string cpuinfo() {
  std::string text;
  for (int cpu = 0; cpu < 8; ++cpu) {
    text += "processor\t: " + std::to_string(cpu) + "\nmodel name\t: Some CPU @ 2.0GHz\n" +
            "physical id\t: " + std::to_string(cpu / 2 % 2) +
            "\ncore id\t\t: " + std::to_string(cpu % 2) + "\nflags\t\t:\n\n";
  }
  return text;
}

/// A root folder of a machine with those CPUs and 16 GiB.
struct Machine : TestFolder {
  Machine() {
    put("proc/cpuinfo", cpuinfo());
    put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n");
  }
};

TEST(DetectHost, CountsCoresAndMemory) {
  const Machine root;
  EXPECT_EQ(detect_host(root.path()), (HostFacts{"Some CPU @ 2.0GHz", 4, Bytes{16 * kGi}}));
}

TEST(DetectHost, CountsOnlyTheCoresItMayUse) {
  struct Case {
    const char* allowed;
    int cores;
  };
  for (const Case& each : {Case{"0-7", 4}, Case{"0,4", 1}, Case{"0-1", 2}, Case{"0-2,7", 4}}) {
    const Machine root;
    root.put("proc/self/status",
             std::string("Name:\tx\nCpus_allowed_list:\t") + each.allowed + "\n");
    EXPECT_EQ(detect_host(root.path()).physical_cores, each.cores) << each.allowed;
  }
}

TEST(DetectHost, HeedsTheTightestLimitOfTheUnifiedHierarchy) {
  const Machine root;
  root.put("proc/self/cgroup", "0::/user/job\n");
  root.put("sys/fs/cgroup/user/job/memory.max", "max\n");
  root.put("sys/fs/cgroup/user/memory.max", "4294967296\n");
  root.put("sys/fs/cgroup/user/job/cpu.max", "150000 100000\n");
  const HostFacts facts = detect_host(root.path());
  EXPECT_EQ(facts.memory_total, Bytes{4 * kGi});
  EXPECT_EQ(facts.physical_cores, 2) << "one and a half CPUs need two threads";
}

TEST(DetectHost, HeedsLimitsOfTheOldHierarchyAtTheMountPointOfAContainer) {
  const Machine root;
  root.put("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n");
  root.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  root.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const HostFacts facts = detect_host(root.path());
  EXPECT_EQ(facts.memory_total, Bytes{8 * kGi});
  EXPECT_EQ(facts.physical_cores, 1);
}

TEST(DetectHost, TakesNoLimitForWhatItIs) {
  const Machine root;
  root.put("proc/self/cgroup", "5:memory:/\n4:cpu:/\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_memory_limit(root.path()), std::nullopt);
  EXPECT_EQ(cgroup_cpu_quota(root.path()), std::nullopt);
  EXPECT_EQ(detect_host(root.path()).memory_total, Bytes{16 * kGi});
}

TEST(DetectHost, ACpuWithoutTopologyOrNameStillCounts) {
  const TestFolder root;
  root.put("proc/meminfo", "MemTotal: 1048576 kB\n");
  root.put("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50\n\nprocessor\t: 1\n");
  EXPECT_EQ(detect_host(root.path()), (HostFacts{"unknown CPU", 2, Bytes{kGi}}));
}

TEST(DetectHost, AMachineThatSaysNothingIsAWorldError) {
  const TestFolder root;
  EXPECT_THROW(detect_host(root.path()), WorldError);
}

TEST(DetectHost, ThisMachineHasCoresAndMemory) {
  const HostFacts facts = detect_host();
  EXPECT_GE(facts.physical_cores, 1);
  EXPECT_GT(facts.memory_total, Bytes{kGi / 4});
}

TEST(DetectHost, DevicesShareTheUsablePart) {
  const ClusterSpec cluster = cpu_cluster({"Some CPU", 6, Bytes{10 * kGi}}, 2);
  EXPECT_EQ(cluster.devices(), 2);
  EXPECT_EQ(cluster.device.kind, DeviceKind::cpu);
  EXPECT_EQ(cluster.device.memory, Bytes{4 * kGi});
  EXPECT_EQ(cluster.device.memory_stated, Bytes{5 * kGi});
  EXPECT_EQ(cluster.threads_per_rank, 3);
  ASSERT_EQ(cluster.links.size(), 1u);
  EXPECT_EQ(cluster.links[0].span, 2);
  EXPECT_EQ(cpu_cluster({"Some CPU", 1, Bytes{kGi}}, 4).threads_per_rank, 1);
}

TEST(DetectCgroup, CountsOutOfMemoryKills) {
  struct Case {
    const char* cgroup;
    const char* file;
    const char* text;
    std::int64_t count;
  };
  const Case cases[] = {
      {"0::/job\n", "sys/fs/cgroup/job/memory.events", "low 0\noom 4\noom_kill 3\n", 3},
      {"6:memory:/job\n0::/\n", "sys/fs/cgroup/memory/job/memory.oom_control",
       "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5},
      {"6:memory:/elsewhere\n", "sys/fs/cgroup/memory/memory.oom_control", "oom_kill 2\n", 2},
      {"0::/\n", "proc/vmstat", "pgfault 9\noom_kill 7\n", 7},
      {"", "proc/nothing", "", 0},
  };
  for (const Case& each : cases) {
    const TestFolder root;
    root.put("proc/self/cgroup", each.cgroup);
    root.put(each.file, each.text);
    EXPECT_EQ(oom_kill_count(root.path()), each.count) << each.file;
  }
}

TEST(DetectGpus, WithoutTheLibraryThereAreNoneAndNoProblem) {
  const GpuScan scan = detect_gpus("libplanwright-no-such-library.so.1");
  EXPECT_TRUE(scan.gpus.empty());
  EXPECT_TRUE(scan.problem.empty());
}

TEST(DetectGpus, ALibraryThatIsNotWhatItShouldBeIsReported) {
  const GpuScan scan = detect_gpus("libm.so.6");
  EXPECT_TRUE(scan.gpus.empty());
  EXPECT_EQ(scan.problem, "NVML has no nvmlInit_v2");
}

}  // namespace
}  // namespace planwright::launcher
