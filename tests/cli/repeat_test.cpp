#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "command.h"
#include "probes/protocol/probe_report.h"
#include "small_study.h"
#include "tests/support/fault.h"
#include "tests/support/processes.h"

/// Contenders that `tune` measures together. The worker is a script that finds every plan equally
/// fast, and waits in the jobs that come together if it is told to.
namespace planwright::testing {
namespace {

const char* const kWorker = R"(
import json, os, sys, time
request = json.load(open(sys.argv[1]))
rank = int(sys.argv[2])
here = os.path.dirname(__file__)
if rank == 0:
    with open(here + "/sets", "a") as sets:
        sets.write(" ".join(str(job["scope"]["steps"]) for job in request["train"]) + "\n")
if len(request["train"]) > 1 and os.path.exists(here + "/wait"):
    time.sleep(1000)
report = json.load(open(here + "/report.json"))
finished = report["jobs"].pop()
for job in request["train"]:
    finished["measurement"]["steps_s"] = [0.1] * job["scope"]["steps"]
    report["jobs"].append(json.loads(json.dumps(finished)))
report["rank"] = rank
with open(f"{request['report_prefix']}.{rank}.json", "w") as out:
    json.dump(report, out)
)";

class RepeatProcess : public ::testing::Test {
 protected:
  RepeatProcess() {
    probes::RankReport report;
    report.environment = {{"torch", "none"}};
    report.jobs.resize(1);
    report.jobs.front().losses = {2, 1};
    report.jobs.front().measurement.steps_s = {0.1};
    folder_.put("report.json", probes::to_json(report).dump());
    folder_.put("worker.py", kWorker);
    folder_.put("study.toml", small_study("[4]", ""));
    tune_ = "tune study.toml --json --worker " +
            folder_.put_script("worker", "exec python3 " + (folder_ / "worker.py") + " \"$@\"");
  }

  CommandPlace place() const { return {folder_.path()}; }
  CommandResult run(const std::string& line) const { return run_command(place(), words(line)); }

  /// Trials of the study by their state.
  std::map<std::string, int> states() const {
    return json_lines(run("history list --json").out).front()["rows"][0]["trials"];
  }

  const TestFolder folder_;
  std::string tune_;
};

std::map<std::string, int> count_events(const std::vector<Json>& lines) {
  std::map<std::string, int> counts;
  for (const Json& line : lines) ++counts[line["event"].get<std::string>()];
  return counts;
}

int occurrences(const std::string& text, const std::string& word) {
  int count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(RepeatProcess, ContendersShareASetOfProcessesAndKeepATrialEach) {
  const CommandResult tuned = run(tune_);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const std::vector<Json> lines = json_lines(tuned.out);
  EXPECT_EQ(count_events(lines),
            (std::map<std::string, int>{
                {"probe_started", 4}, {"probe_finished", 4}, {"refit", 3}, {"result", 1}}));
  EXPECT_EQ(file_text(folder_ / "sets"), "2\n2\n2 2 2 2 2 2 2 2\n");
  std::map<std::size_t, int> steps;
  for (const Json& line : lines) {
    if (line["event"] == "probe_finished") ++steps[line["steps_s"].size()];
  }
  EXPECT_EQ(steps, (std::map<std::size_t, int>{{2, 2}, {8, 2}}));
  EXPECT_EQ(states(), (std::map<std::string, int>{{"COMPLETE", 4}}));
  for (const char* number : {"#2   measured", "#3   measured"}) {
    EXPECT_NE(tuned.err.find(number), std::string::npos) << tuned.err;
  }
}

TEST_F(RepeatProcess, AreCutShortTogether) {
  folder_.put("wait", "");
  for (const int signal : {SIGINT, SIGKILL}) {
    RunningCommand tune(place(), words(tune_ + " --study s" + std::to_string(signal)));
    ASSERT_TRUE(comes_true([&] { return occurrences(tune.out(), "probe_started") == 4; }, 60));
    kill(tune.pid(), signal);
    EXPECT_EQ(tune.wait().code, signal == SIGINT ? 130 : 128 + SIGKILL);
  }
  std::filesystem::remove(folder_ / "wait");
  const CommandResult interrupted = run(tune_ + " --study s2");
  EXPECT_EQ(interrupted.code, 0) << interrupted.err;
  const CommandResult killed = run(tune_ + " --study s9");
  EXPECT_NE(killed.err.find("2 probes of a tuner that is gone"), std::string::npos) << killed.err;
  for (const CommandResult& again : {interrupted, killed}) {
    EXPECT_EQ(count_events(json_lines(again.out))["probe_finished"], 2) << "the repeats only";
    EXPECT_EQ(json_lines(again.out).back()["probes"], 4);
    EXPECT_EQ(json_lines(again.out).back()["tried"], 2);
  }
}

}  // namespace
}  // namespace planwright::testing
