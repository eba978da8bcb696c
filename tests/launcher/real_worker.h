#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "estimator/spec/text_file.h"
#include "launcher/probe_runner.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/fake_traits.h"
#include "tests/support/processes.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {

using testing::data_parallel;
using testing::processes_marked;
using testing::TestFolder;

inline const std::string kBin = PLANWRIGHT_BIN_DIR;

/// The launcher and the CPU worker together; skipped in a build without workers.
class RealWorkerProcess : public ::testing::Test {
 public:
  static probes::TrainJob job(int steps) {
    Problem problem = testing::fake_problem(testing::tiny_llama(), 2, Precision::fp32);
    problem.target = "builtin";
    problem.target_version = targets::builtin::traits().version;
    ProbeScope scope;
    scope.steps = steps;
    return make_train_job(problem, data_parallel(2, 1, 2), scope, targets::builtin::traits(), 1);
  }

 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kBin + "/planwright-worker-cpu")) GTEST_SKIP() << "no worker";
    options_.worker = kBin + "/planwright-worker-cpu";
    options_.supervisor = kBin + "/planwright-supervisor";
    options_.temp_root = folder_.path();
    options_.environment["PLANWRIGHT_TEST"] = folder_.path();
  }

  void TearDown() override {
    EXPECT_TRUE(processes_marked(folder_.path()).empty()) << "every process has ended";
    EXPECT_EQ(folder_.entries(), 0) << "no temporary file is left";
  }

  /// Runs a job that would take for ever and sends `signal` to rank 1 in its third step.
  Outcome run_and_signal_rank_1(int signal) {
    bool sent = false;
    options_.progress = [&](const ProgressEvent& event) {
      if (sent || event.rank != 1 || event.text != "step 3") return;
      sent = true;
      kill(pid_of_rank_1(), signal);
    };
    return run_probe(job(1000000), options_);
  }

  /// The worker whose last argument is "1".
  int pid_of_rank_1() const {
    for (const int pid : processes_marked(folder_.path())) {
      const std::string line = read_file("/proc/" + std::to_string(pid) + "/cmdline");
      if (line.ends_with(std::string("\0001\0", 3))) return pid;
    }
    ADD_FAILURE() << "rank 1 does not run";
    return getpid();
  }

  TestFolder folder_;
  RunOptions options_;
};

inline std::string why(const Outcome& outcome) {
  const Failure* const failure = outcome.failure();
  return failure == nullptr ? "" : failure->detail + "\n" + failure->log_tail;
}

/// A worker that notes each start of rank 0, so that sets of processes can be counted.
class ReuseProcess : public RealWorkerProcess {
 protected:
  void SetUp() override {
    RealWorkerProcess::SetUp();
    if (IsSkipped()) return;
    options_.worker = programs_.put_script("worker", "[ $2 = 0 ] && echo start >>" +
                                                         programs_.path() + "/starts\nexec " +
                                                         kBin + "/planwright-worker-cpu $1 $2");
  }

  std::size_t sets() const { return read_file(programs_ / "starts").size() / strlen("start\n"); }

  /// Sends `signal` to rank 1 in the third step of the job in which a step takes for ever.
  void signal_in_endless_job(int signal) {
    options_.progress = [this, signal, sent = false](const ProgressEvent& event) mutable {
      if (sent || event.rank != 1 || event.text != "step 100") return;
      sent = true;
      kill(pid_of_rank_1(), signal);
    };
  }

  TestFolder programs_;
};

}  // namespace planwright::launcher
