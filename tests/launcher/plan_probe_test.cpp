#include "launcher/plan_probe.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "launcher/clock.h"
#include "launcher/targets/command/target.h"
#include "tests/support/built_programs.h"
#include "tests/support/fake_traits.h"
#include "tests/support/fault.h"
#include "tests/support/processes.h"
#include "tests/support/test_folder.h"

/// Plans of a target without a worker: a script of the shell stands for the user's.
namespace planwright::launcher {
namespace {

class PlanProbeProcess : public ::testing::Test {
 protected:
  PlanProbeProcess() {
    options_.supervisor = testing::built_programs(PLANWRIGHT_BIN_DIR).supervisor;
    options_.environment["PLANWRIGHT_TEST"] = folder_.path();
    folder_.put("temp/.keep", "");
    options_.temp_root = folder_ / "temp";
  }
  void TearDown() override {
    EXPECT_TRUE(testing::processes_marked(folder_.path()).empty()) << "processes are left";
  }

  std::vector<Outcome> measure(const std::string& script, const std::vector<Candidate>& plans,
                               int rounds) {
    user_.words = {folder_.put_script("train", script), "{micro_batch}", "{accumulation}",
                   "{steps}"};
    const Target target = targets::command::target(user_, "here");
    std::vector<PlanJob> jobs;
    for (const Candidate& each : plans) {
      jobs.push_back({target, problem_, each, {.warmup = 1, .steps = 4}, user_});
    }
    return measure_plans(jobs, rounds, options_);
  }

  testing::TestFolder folder_;
  RunOptions options_;
  UserCommand user_;
  Problem problem_ = testing::fake_problem(testing::tiny_llama(), 2, Precision::fp32);
};

bool comes_true(const std::function<bool()>& condition) {
  constexpr double kPatience_s = 10;
  const double until = monotonic_s() + kPatience_s;
  while (!condition()) {
    if (monotonic_s() > until) return false;
    usleep(20'000);
  }
  return true;
}

const char* const kReports =
    "echo \"$1 $2 $3 $OMP_NUM_THREADS\" >> \"$PLANWRIGHT_TEST/asked\"\n"
    "echo \"{\\\"step_time_s\\\": 0.$1}\" > \"$PLANWRIGHT_REPORT\"\n";

TEST_F(PlanProbeProcess, RunsWhatTheTargetEmits) {
  problem_.cluster.threads_per_rank = 3;
  const auto outcomes = measure(kReports, {testing::data_parallel(2, 0, 2)}, 1);
  ASSERT_EQ(outcomes.size(), 1u);
  ASSERT_NE(outcomes[0].measurement(), nullptr) << outcomes[0].failure()->detail;
  EXPECT_EQ(outcomes[0].measurement()->step_time_s, 0.2);
  EXPECT_EQ(outcomes[0].measurement()->tokens_per_second_per_device, 8 * 16 / 0.2 / 2);
  EXPECT_EQ(outcomes[0].environment.at(kWitness), "report");
  EXPECT_EQ(testing::file_text(folder_ / "asked"), "2 2 5 3\n");
}

TEST_F(PlanProbeProcess, ComparesPlansInTurns) {
  const auto outcomes =
      measure(kReports, {testing::data_parallel(2, 0, 2), testing::data_parallel(2, 0, 4)}, 4);
  ASSERT_EQ(outcomes.size(), 2u);
  ASSERT_NE(outcomes[1].measurement(), nullptr);
  EXPECT_EQ(outcomes[1].measurement()->step_time_s, 0.4);
  EXPECT_EQ(testing::file_text(folder_ / "asked"), "2 2 3 1\n4 1 3 1\n4 1 3 1\n2 2 3 1\n")
      << "two rounds, the second backwards, half of the steps in each";
}

TEST_F(PlanProbeProcess, SaysThatTheProgramIsNotThere) {
  user_.words = {"no-such-launcher", "{micro_batch}", "{accumulation}"};
  const Target target = targets::command::target(user_, "here");
  const auto outcomes =
      measure_plans({{target, problem_, testing::data_parallel(2, 0, 2), {}, user_}}, 1, options_);
  ASSERT_EQ(outcomes[0].kind(), OutcomeKind::environment);
  EXPECT_NE(outcomes[0].failure()->detail.find("no-such-launcher is not in the PATH"),
            std::string::npos)
      << outcomes[0].failure()->detail;
}

TEST_F(PlanProbeProcess, SaysHowToInstallWhatIsMissing) {
  const auto outcomes =
      measure("echo \"ModuleNotFoundError: No module named 'deepspeed.ops'\" >&2\nexit 1\n",
              {testing::data_parallel(2, 0, 2)}, 1);
  ASSERT_EQ(outcomes[0].kind(), OutcomeKind::environment);
  EXPECT_NE(outcomes[0].failure()->detail.find("pip install deepspeed)"), std::string::npos)
      << outcomes[0].failure()->detail;
}

TEST_F(PlanProbeProcess, OnACpuAPeakBeyondTheBudgetDoesNotFit) {
  const auto outcomes =
      measure("echo '{\"step_time_s\": 1, \"peak_bytes\": 2000000000}' > \"$PLANWRIGHT_REPORT\"\n",
              {testing::data_parallel(2, 0, 2)}, 1);
  const OutOfMemory* full = outcomes[0].out_of_memory();
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(full->allocated, Bytes{2000000000});
  EXPECT_EQ(full->capacity, capacity(problem_));
  EXPECT_EQ(full->account, std::nullopt) << "nobody knows";
}

TEST_F(PlanProbeProcess, ATunerThatIsKilledLeavesNoFiles) {
  const pid_t tuner = fork();
  if (tuner == 0) {
    measure("touch \"$PLANWRIGHT_TEST/begun\"\nsleep 600\n", {testing::data_parallel(2, 0, 2)}, 1);
    _exit(0);
  }
  EXPECT_TRUE(comes_true([&] { return std::filesystem::exists(folder_ / "begun"); }));
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder_ / "temp"), {});
  };
  EXPECT_TRUE(comes_true([&] { return files() == 1; })) << "beside .keep";
}

}  // namespace
}  // namespace planwright::launcher
