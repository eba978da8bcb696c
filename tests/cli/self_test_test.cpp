#include "cli/self_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cli/doctor_checks.h"
#include "cli/self_test_ledger.h"
#include "command.h"
#include "launcher/detect/host.h"
#include "planwright_version.h"

namespace planwright::cli {
namespace {

using testing::CommandResult;
using testing::TestFolder;

DeviceSpec cpu() { return launcher::cpu_cluster(launcher::detect_host(), 1).device; }

DeviceSpec gpu() {
  DeviceSpec device;
  device.name = "NVIDIA Unheard-Of";
  device.kind = DeviceKind::cuda;
  device.memory = device.memory_stated = Bytes{std::int64_t{80} << 30};
  return device;
}

const Check& named(const std::vector<Check>& checks, const std::string& name) {
  const auto found = std::find_if(checks.begin(), checks.end(),
                                  [&](const Check& check) { return check.name == name; });
  if (found == checks.end()) throw std::out_of_range(name);
  return *found;
}

/// What the worker measures if the estimate is right.
Outcome measured_as_estimated(const SelfTestProbe& probe) {
  const ExactLedger exact = exact_ledger(probe);
  RankMeasurement rank;
  rank.loaded = rank.step_end = exact.loaded;
  rank.peak = rank.tensors = exact.peak;
  rank.peak[Account::workspace] = rank.step_end[Account::workspace] = Bytes{8 << 20};
  rank.peak_phase = rank.tensors_phase = exact.phase;
  Measurement measurement;
  measurement.ranks = {rank};
  return {measurement, {}};
}

RankMeasurement& rank_of(Outcome& outcome) {
  return std::get<Measurement>(outcome.value).ranks.front();
}

TEST(SelfTest, TakesADeviceThatNoTableKnows) {
  for (const DeviceSpec& device : {cpu(), gpu()}) {
    std::vector<SelfTestProbe> all{trace_probe(device), overfull_probe(device)};
    for (SelfTestProbe& probe : table_probes(device)) all.push_back(probe);
    for (SelfTestProbe& probe : shadow_probes(device)) all.push_back(probe);
    for (const SelfTestProbe& probe : all) {
      const probes::TrainJob job = job_of(probe);
      EXPECT_EQ(job.kernels,
                device.kind == DeviceKind::cpu ? KernelSet::in_place : KernelSet::composed);
      const ExactLedger exact = exact_ledger(probe);
      EXPECT_GT(exact.peak.tensors(), exact.loaded.tensors()) << probe.name;
      EXPECT_TRUE(bytes_check(probe, measured_as_estimated(probe)).ok) << probe.name;
    }
  }
}

TEST(SelfTest, AByteTooManyIsARowThatSaysWhere) {
  const SelfTestProbe probe = table_probes(gpu()).front();
  Outcome outcome = measured_as_estimated(probe);
  EXPECT_EQ(bytes_check(probe, outcome).fix, "");
  rank_of(outcome).tensors[Account::activations] += Bytes{512};
  rank_of(outcome).step_end[Account::gradients] -= Bytes{4};
  const Check check = bytes_check(probe, outcome);
  EXPECT_FALSE(check.ok);
  const std::string where = "; peak activations +512, end of a step gradients -4";
  EXPECT_EQ(check.detail.substr(check.detail.size() - where.size()), where);
  EXPECT_NE(check.detail.find(" (+512)"), std::string::npos) << check.detail;
  EXPECT_NE(check.fix, "");
}

TEST(SelfTest, TheTraceHasARowForEachAccountOfTheStep) {
  const SelfTestProbe probe = trace_probe(gpu());
  Outcome outcome = measured_as_estimated(probe);
  rank_of(outcome).loaded[Account::optimizer] += Bytes{1};
  rank_of(outcome).reserved_peak = rank_of(outcome).allocated_peak() - Bytes{1};
  const std::vector<Check> checks = trace_checks(probe, outcome);
  for (const char* account : {"parameters", "gradients", "activations"}) {
    EXPECT_TRUE(named(checks, std::string("trace: ") + account).ok) << account;
  }
  for (const char* wrong : {"trace", "trace: optimizer", "trace: books"}) {
    EXPECT_FALSE(named(checks, wrong).ok) << wrong;
    EXPECT_NE(named(checks, wrong).fix, "");
  }
}

TEST(SelfTest, AProbeThatFailsSaysItsLastLine) {
  const Failure failure{OutcomeKind::crashed, "rank 0 ended with code 15",
                        "loading\nrank 0: the driver is too old\n\n", 0};
  const Check check = bytes_check(trace_probe(gpu()), {failure, {}});
  EXPECT_FALSE(check.ok);
  EXPECT_EQ(check.detail, "crashed: rank 0 ended with code 15; rank 0: the driver is too old");
}

TEST(SelfTest, HoldsVersionsAgainstTheHeaders) {
  struct Case {
    const char *nccl, *driver_cuda;
    bool nccl_ok, driver_ok;
  };
  for (const Case& each : {Case{"2.28.9", "13.0", true, true}, Case{"2.29.1", "14.0", true, true},
                           Case{"2.28.8", "12.9", false, false}, Case{"3.0.0", "13.2", false, true},
                           Case{"2.9.9", "9.0", false, false}}) {
    const std::vector<Check> checks = version_checks({{"torch", "2.11.0"},
                                                      {"cuda", "13.0"},
                                                      {"cuda_of_driver", each.driver_cuda},
                                                      {"driver", "580.65.06"},
                                                      {"nccl", each.nccl}},
                                                     "2.28.9");
    ASSERT_EQ(checks.size(), 3u);
    EXPECT_EQ(named(checks, "nccl").ok, each.nccl_ok) << each.nccl;
    EXPECT_EQ(named(checks, "driver").ok, each.driver_ok) << each.driver_cuda;
    for (const Check& check : checks) EXPECT_EQ(check.fix.empty(), check.ok);
  }
  EXPECT_EQ(version_checks({{"torch", "2.11.0"}}, "2.28.9").size(), 1u) << "a CPU's";
  EXPECT_TRUE(version_checks({}, "2.28.9").empty());
}

TEST(SelfTest, SaysWhyThereIsNoDevice) {
  const auto row = [](const launcher::GpuScan& scan) {
    const std::vector<Check> checks = gpu_list(scan);
    EXPECT_EQ(checks.size(), 1u);
    EXPECT_FALSE(checks.front().ok);
    EXPECT_NE(checks.front().fix, "");
    return checks.front().detail;
  };
  EXPECT_EQ(row({}), "no NVIDIA device: the driver's library libnvidia-ml.so.1 cannot be loaded");
  EXPECT_EQ(row({.gpus = {}, .driver = "580.1", .problem = ""}),
            "no NVIDIA device: the driver 580.1 lists none");
  EXPECT_EQ(row({.gpus = {}, .driver = "", .problem = "nvmlInit_v2: Driver Not Loaded"}),
            "no NVIDIA device: the driver cannot be asked: nvmlInit_v2: Driver Not Loaded");
}

TEST(SelfTest, ListsEachDevice) {
  const launcher::Gpu h200{"NVIDIA H200", Bytes{std::int64_t{141} << 30}};
  const std::vector<Check> checks = gpu_list({{h200, h200}, "580.1", ""});
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(named(checks, "gpu 1").detail, "NVIDIA H200, 141.00 GiB");
}

class SelfTestProcess : public ::testing::Test {
 protected:
  SelfTestProcess() {
    options_.worker = bin_ + "/planwright-worker-cpu";
    options_.supervisor = bin_ + "/planwright-supervisor";
    options_.temp_root = folder_.path();
  }

  const std::string bin_ = PLANWRIGHT_BIN_DIR;
  const TestFolder folder_;
  launcher::RunOptions options_;
};

TEST_F(SelfTestProcess, OnACpuIsExactToTheByte) {
  if (!std::filesystem::exists(options_.worker)) GTEST_SKIP() << "this build has no worker";
  const std::vector<Check> checks = self_test(DeviceKind::cpu, options_);
  for (const Check& check : checks) {
    EXPECT_TRUE(check.ok) << check.name << ": " << check.detail;
  }
  for (const char* name :
       {"torch", "trace", "trace: optimizer", "trace: logits", "trace: books",
        "bytes: gpt, recompute none", "bytes: odd sizes, recompute full",
        "bytes: llama, zero 3, recompute full", "shadow: rank 0 of 8, zero 1",
        "shadow: rank 7 of 8, zero 3", "processes used again", "out of memory", "recovery"}) {
    EXPECT_NO_THROW(named(checks, name)) << name;
  }
  EXPECT_EQ(folder_.entries(), 0) << "it leaves nothing behind";
}

TEST_F(SelfTestProcess, EndsBehindAFirstProbeThatCannotRun) {
  const TestFolder programs;
  options_.worker = programs.put_script("worker", "echo no such device >&2; exit 15");
  const std::vector<Check> checks = self_test(DeviceKind::cpu, options_);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks.front().name, "trace");
  EXPECT_NE(checks.front().detail.find("no such device"), std::string::npos)
      << checks.front().detail;
}

TEST_F(SelfTestProcess, IsRefusedWithoutADevice) {
  if (!launcher::detect_gpus().gpus.empty()) GTEST_SKIP() << "this host has a GPU";
  const CommandResult result =
      testing::run_command({folder_.path()}, testing::words("doctor --gpu --json"));
  EXPECT_EQ(result.code, 1) << result.err;
  const Json checks = testing::json_lines(result.out).front()["checks"];
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0]["name"], "gpu");
  EXPECT_FALSE(checks[0]["ok"]);
  EXPECT_EQ(checks[0]["detail"].get<std::string>().find("no NVIDIA device: "), 0u);
}

}  // namespace
}  // namespace planwright::cli
