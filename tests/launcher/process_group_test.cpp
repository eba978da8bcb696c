#include "launcher/process_group.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "estimator/spec/error.h"
#include "tests/support/processes.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

using testing::comes_true;
using testing::processes_marked;
using testing::TestFolder;

/// The supervisor of this build.
const std::string kSupervisor = std::string(PLANWRIGHT_BIN_DIR) + "/planwright-supervisor";

/// Far more than anything here takes; a test that reaches it has failed.
constexpr double kLong_s = 60;

/// What "all within 5 s of the first failure" allows, DESIGN section 9.
constexpr double kPeersEnd_s = 5;

std::string mark_of_this_test() {
  return std::string("PLANWRIGHT_TEST=") +
         ::testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid());
}

GroupSpec shells(const std::vector<std::string>& scripts) {
  const std::string mark = mark_of_this_test();
  GroupSpec spec;
  for (const std::string& script : scripts) {
    RankCommand command{{"/bin/sh", "-c", script}, {}, "", {}};
    command.environment["PLANWRIGHT_TEST"] = mark.substr(mark.find('=') + 1);
    spec.ranks.push_back(command);
  }
  return spec;
}

struct Followed {
  std::vector<RankExited> exits;
  std::vector<RankProgress> progress;
  std::vector<RankNotStarted> not_started;
  std::optional<GroupEnded> ended;

  const RankExited& exit_of(int rank) const {
    return *std::find_if(exits.begin(), exits.end(), [&](const auto& e) { return e.rank == rank; });
  }
};

Followed follow(ProcessGroup& group, double timeout_s = kLong_s) {
  Followed seen;
  const double until = monotonic_s() + timeout_s;
  while (!group.ended() && monotonic_s() < until) {
    const auto event = group.next(0.1);
    if (!event) continue;
    if (const auto* e = std::get_if<RankExited>(&*event)) seen.exits.push_back(*e);
    if (const auto* e = std::get_if<RankProgress>(&*event)) seen.progress.push_back(*e);
    if (const auto* e = std::get_if<RankNotStarted>(&*event)) seen.not_started.push_back(*e);
    if (const auto* e = std::get_if<GroupEnded>(&*event)) seen.ended = *e;
  }
  return seen;
}

TEST(ProcessGroupProcess, ReportsHowEachRankEnded) {
  struct Case {
    const char* script;
    int code, signal;
  };
  const Case cases[] = {{"exit 0", 0, 0},        {"exit 3", 3, 0},
                        {"kill -KILL $$", 0, 9}, {"kill -SEGV $$", 0, 11},
                        {"kill -ABRT $$", 0, 6}, {"kill -TERM $$", 0, 15}};
  for (const Case& each : cases) {
    ProcessGroup group(kSupervisor, shells({each.script}));
    const Followed seen = follow(group);
    ASSERT_EQ(seen.exits.size(), 1u) << each.script;
    EXPECT_EQ(seen.exits[0].code, each.code) << each.script;
    EXPECT_EQ(seen.exits[0].signal, each.signal) << each.script;
    EXPECT_FALSE(seen.exits[0].ordered) << each.script;
    ASSERT_TRUE(seen.ended) << each.script;
    EXPECT_EQ(seen.ended->left, 0) << each.script;
    EXPECT_FALSE(seen.ended->lost) << each.script;
  }
}

TEST(ProcessGroupProcess, PassesOnProgressAndOutput) {
  ProcessGroup group(kSupervisor,
                     shells({"echo step 0 >&3; echo out; echo step 1 >&3; echo err >&2"}));
  const Followed seen = follow(group);
  ASSERT_EQ(seen.progress.size(), 2u);
  EXPECT_EQ(seen.progress[0].text, "step 0");
  EXPECT_EQ(seen.progress[1].text, "step 1");
  EXPECT_EQ(seen.exit_of(0).log_tail, "out\nerr\n");
}

TEST(ProcessGroupProcess, GivesARankANullInputItsEnvironmentAndNoOtherDescriptor) {
  GroupSpec spec = shells({"cat; echo $PLANWRIGHT_TEST_VALUE; ls /proc/$$/fd | tr '\\n' ' '"});
  spec.ranks[0].environment["PLANWRIGHT_TEST_VALUE"] = "a b";
  ProcessGroup group(kSupervisor, spec);
  const std::string log = follow(group).exit_of(0).log_tail;
  EXPECT_EQ(log, "a b\n0 1 2 3 ");
}

TEST(ProcessGroupProcess, SaysWhyAProgramCannotBeExecuted) {
  GroupSpec spec = shells({"sleep 1000", "", "sleep 1000"});
  spec.ranks[1].argv = {"/nonexistent/worker"};
  ProcessGroup group(kSupervisor, spec);
  const Followed seen = follow(group);
  ASSERT_EQ(seen.not_started.size(), 1u);
  EXPECT_EQ(seen.not_started[0].rank, 1);
  EXPECT_EQ(seen.not_started[0].reason,
            "cannot execute /nonexistent/worker: No such file or directory");
  EXPECT_TRUE(seen.exit_of(0).ordered);
  EXPECT_TRUE(processes_marked(mark_of_this_test()).empty());
}

TEST(ProcessGroupProcess, AMissingSupervisorIsAWorldError) {
  EXPECT_THROW(ProcessGroup("/nonexistent/supervisor", shells({"true"})), WorldError);
}

TEST(ProcessGroupProcess, ASupervisorThatDoesNotReadItsLongSpecificationIsLost) {
  GroupSpec spec = shells({"sleep 60"});
  spec.ranks[0].environment["PLANWRIGHT_TEST_VALUE"] = std::string(4 << 20, 'x');
  ProcessGroup group("/bin/true", spec);
  const Followed seen = follow(group);
  ASSERT_TRUE(seen.ended.has_value());
  EXPECT_TRUE(seen.ended->lost);
}

TEST(ProcessGroupProcess, APathThatIsNoTextIsAWorldErrorBeforeAnythingStarts) {
  EXPECT_THROW(ProcessGroup(kSupervisor, shells({"echo '\xff'"})), WorldError);
}

TEST(ProcessGroupProcess, EndsThePeersOfAFailedRankHoweverTheyResist) {
  const char* const peers[] = {
      "sleep 1000",
      "trap '' TERM; while :; do sleep 1; done",
      "setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000",
      "(setsid setsid sleep 1000 &) ; kill -STOP $$",
      "kill -STOP $$",
  };
  for (const char* const peer : peers) {
    ProcessGroup group(kSupervisor, shells({peer, "exit 7"}));
    const Followed seen = follow(group, kLong_s);
    ASSERT_TRUE(seen.ended) << peer;
    EXPECT_EQ(seen.ended->left, 0) << peer;
    EXPECT_TRUE(seen.exit_of(0).ordered) << peer;
    EXPECT_FALSE(seen.exit_of(1).ordered) << peer;
    EXPECT_TRUE(processes_marked(mark_of_this_test()).empty()) << peer;
  }
}

TEST(ProcessGroupProcess, LetsPeersReportWithinTheirGrace) {
  ProcessGroup group(kSupervisor, shells({"exit 12", "sleep 0.3; echo told >&2; exit 12"}));
  const Followed seen = follow(group);
  EXPECT_FALSE(seen.exit_of(1).ordered);
  EXPECT_EQ(seen.exit_of(1).code, 12);
  EXPECT_EQ(seen.exit_of(1).log_tail, "told\n");
}

TEST(ProcessGroupProcess, AStoppedGroupMayEndInOrder) {
  ProcessGroup group(
      kSupervisor,
      shells({"trap 'echo bye; exit 0' TERM; echo up >&3; while :; do sleep 0.05; done"}));
  std::optional<GroupEvent> event;
  do event = group.next(kLong_s);
  while (event && !std::holds_alternative<RankProgress>(*event));
  group.stop();
  const Followed seen = follow(group);
  EXPECT_EQ(seen.exit_of(0).code, 0);
  EXPECT_TRUE(seen.exit_of(0).ordered);
  EXPECT_TRUE(seen.exit_of(0).log_tail.ends_with("bye\n")) << seen.exit_of(0).log_tail;
}

TEST(ProcessGroupProcess, AFloodOfOutputFillsNeitherMemoryNorDisk) {
  const TestFolder folder;
  GroupSpec spec = shells({"yes 0123456789 | head -c 100000000; echo THE END"});
  spec.ranks[0].log_path = folder / "rank-0.log";
  ProcessGroup group(kSupervisor, spec);
  const Followed seen = follow(group);
  EXPECT_EQ(seen.exit_of(0).log_tail.size(), kLogTail);
  EXPECT_TRUE(seen.exit_of(0).log_tail.ends_with("THE END\n"));
  EXPECT_LT(std::filesystem::file_size(folder / "rank-0.log"), kLogHead + kLogTail + 100);
}

TEST(ProcessGroupProcess, AFloodOfProgressIsSurvived) {
  ProcessGroup group(kSupervisor, shells({"yes alive | head -n 200000 >&3; head -c 100000 "
                                          "/dev/zero >&3; exit 4"}));
  EXPECT_EQ(follow(group).exit_of(0).code, 4);
}

TEST(ProcessGroupProcess, OutputThatIsNoTextIsMadeText) {
  ProcessGroup group(kSupervisor, shells({"printf 'a\\377b'; printf 'c\\377d\\n' >&3"}));
  const Followed seen = follow(group);
  EXPECT_EQ(seen.exit_of(0).log_tail,
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(seen.progress.at(0).text,
            "c\xEF\xBF\xBD"
            "d");
}

TEST(ProcessGroupProcess, TheDestructorEndsEverything) {
  pid_t supervisor_pid = 0;
  {
    ProcessGroup group(kSupervisor,
                       shells({"trap '' TERM; setsid sleep 1000 & sleep 1000", "kill -STOP $$"}));
    supervisor_pid = group.supervisor_pid();
    ASSERT_TRUE(
        comes_true([] { return processes_marked(mark_of_this_test()).size() >= 3; }, kLong_s));
  }
  EXPECT_TRUE(processes_marked(mark_of_this_test()).empty());
  EXPECT_NE(kill(supervisor_pid, 0), 0) << "not even a zombie";
}

TEST(ProcessGroupProcess, ADaemonThatARankLeavesBehindIsEnded) {
  ProcessGroup group(kSupervisor, shells({"setsid sleep 1000 & exit 0"}));
  ASSERT_TRUE(follow(group).ended);
  EXPECT_TRUE(processes_marked(mark_of_this_test()).empty());
}

TEST(ProcessGroupProcess, ALostSupervisorIsNoticedAndItsRanksDie) {
  ProcessGroup group(kSupervisor, shells({"sleep 1000", "trap '' TERM; sleep 1000"}));
  ASSERT_TRUE(
      comes_true([] { return processes_marked(mark_of_this_test()).size() >= 2; }, kLong_s));
  kill(group.supervisor_pid(), SIGKILL);
  const Followed seen = follow(group);
  ASSERT_TRUE(seen.ended);
  EXPECT_TRUE(seen.ended->lost);
  EXPECT_TRUE(
      comes_true([] { return processes_marked(mark_of_this_test()).empty(); }, kPeersEnd_s));
  EXPECT_FALSE(group.next(0)) << "nothing comes after the end";
}

/// A tuner in a process of its own that starts the ranks and waits until it is killed.
pid_t fork_tuner(const GroupSpec& spec) {
  const pid_t pid = fork();
  if (pid == 0) {
    ProcessGroup group(kSupervisor, spec);
    while (true) group.next(1);
  }
  return pid;
}

TEST(ProcessGroupProcess, NothingRunsFiveSecondsAfterTheTunerIsKilled) {
  const TestFolder folder;
  GroupSpec spec = shells(
      {"trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; sleep 1000' & sleep 1000", "kill -STOP $$",
       "(setsid setsid sleep 1000 &); sleep 1000", "while :; do echo alive >&3; echo noise; done"});
  spec.work_folder = folder / "work";
  folder.put("work/rendezvous", "x");
  const std::string mark = mark_of_this_test();
  const pid_t tuner = fork_tuner(spec);
  ASSERT_TRUE(comes_true([&] { return processes_marked(mark).size() >= 7; }, kLong_s));

  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return processes_marked(mark).empty(); }, kPeersEnd_s));
  EXPECT_TRUE(comes_true([&] { return !std::filesystem::exists(spec.work_folder); }, kLong_s));
}

TEST(ProcessGroupProcess, NothingRunsAfterAStoppedTunerIsKilled) {
  const std::string mark = mark_of_this_test();
  const pid_t tuner = fork_tuner(shells({"while :; do echo alive >&3; done", "sleep 1000"}));
  ASSERT_TRUE(comes_true([&] { return processes_marked(mark).size() >= 2; }, kLong_s));
  kill(tuner, SIGSTOP);  // its pipe fills up
  poll(nullptr, 0, 500);
  kill(tuner, SIGKILL);
  waitpid(tuner, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return processes_marked(mark).empty(); }, kPeersEnd_s));
}

}  // namespace
}  // namespace planwright::launcher
