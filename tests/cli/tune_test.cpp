#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "command.h"
#include "small_study.h"
#include "tests/support/busy_processes.h"
#include "tests/support/fault.h"
#include "tests/support/processes.h"

/// The whole loop with real ranks: two of one thread each, and the smallest model of the presets.
namespace planwright::testing {
namespace {

const std::string kStudy = small_study("[1, 4]", "probes = 2\n");

class TuneProcess : public ::testing::Test {
 protected:
  TuneProcess() : mark_("cli-tune-test-" + std::to_string(getpid())) {
    if (access((std::string(PLANWRIGHT_BIN_DIR) + "/planwright-worker-cpu").c_str(), X_OK) != 0) {
      missing_ = true;
    }
    folder_.put("study.toml", kStudy);
  }
  void SetUp() override {
    if (missing_) GTEST_SKIP() << "this build has no worker";
  }

  CommandPlace place() const { return {folder_.path(), {{"PLANWRIGHT_TEST_MARK", mark_}}}; }
  CommandResult run(const std::string& line) const { return run_command(place(), words(line)); }
  Json one(const std::string& line) const {
    const CommandResult result = run(line + " --json");
    EXPECT_EQ(result.code, 0) << result.err;
    const auto documents = json_lines(result.out);
    EXPECT_EQ(documents.size(), 1u);
    return documents.empty() ? Json() : documents.front();
  }
  std::map<std::string, int> trial_states() const {
    std::map<std::string, int> states;
    const Json listed = one("history list");
    for (const Json& row : listed["rows"]) {
      for (const auto& [state, count] : row["trials"].items()) states[state] += count.get<int>();
    }
    return states;
  }
  bool nothing_left() const {
    return comes_true([&] { return processes_marked("PLANWRIGHT_TEST_MARK=" + mark_).empty(); }, 5);
  }

  const TestFolder folder_;
  const std::string mark_;
  bool missing_ = false;
};

std::map<std::string, int> count_events(const std::vector<Json>& lines) {
  std::map<std::string, int> counts;
  for (const Json& line : lines) {
    EXPECT_EQ(line["schema"], "planwright.tune/1");
    ++counts[line["event"].get<std::string>()];
  }
  return counts;
}

TEST_F(TuneProcess, TunesEmitsAndRunsWhatItEmitted) {
  const CommandResult tuned = run("tune study.toml --json");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const auto lines = json_lines(tuned.out);
  EXPECT_EQ(count_events(lines),
            (std::map<std::string, int>{
                {"probe_started", 2}, {"probe_finished", 2}, {"refit", 2}, {"result", 1}}));
  const Json& result = lines.back();
  EXPECT_EQ(result["event"], "result");
  EXPECT_EQ(result["probes"], 2);
  EXPECT_EQ(result["counted"], 4);
  EXPECT_GT(result["measured"]["tokens_per_second_per_device"].get<double>(), 0);

  const Json best = one("history best")["rows"][0];
  EXPECT_EQ(best["target"], "builtin");
  const Json emitted = one("emit study.toml --out launch");
  EXPECT_EQ(emitted["evidence"], "measured");
  EXPECT_EQ(emitted["files"].size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(folder_ / emitted["files"][0].get<std::string>()));
  std::vector<std::string> command = emitted["command"];
  ASSERT_EQ(command.front(), "planwright");
  command.erase(command.begin());
  const CommandResult launched = run_command(place(), command);
  EXPECT_EQ(launched.code, 0) << launched.err;
  EXPECT_NE(launched.out.find("measured"), std::string::npos);
  EXPECT_TRUE(nothing_left());
}

TEST_F(TuneProcess, GoesOnWhereItStopped) {
  ASSERT_EQ(run("tune study.toml --probes 1").code, 0);
  const CommandResult again = run("tune study.toml --probes 2 --json");
  ASSERT_EQ(again.code, 0) << again.err;
  const auto lines = json_lines(again.out);
  EXPECT_EQ(count_events(lines)["probe_started"], 1);
  EXPECT_EQ(lines.front()["number"], 1);
  EXPECT_EQ(lines.back()["probes"], 2);
  const CommandResult spent = run("tune study.toml --probes 2 --json");
  EXPECT_EQ(spent.code, 0);
  EXPECT_EQ(json_lines(spent.out).size(), 1u) << "only the result";
  EXPECT_EQ(one("history show 1")["rows"][0]["number"], 1);
}

TEST_F(TuneProcess, EmitsTheTrialOrThePlanThatIsAskedFor) {
  ASSERT_EQ(run("tune study.toml").code, 0);
  const Json first = one("emit --trial 0 --out first");
  const Json shown = one("history show 0");
  const Json plan = Json::parse(file_text(folder_ / "first/plan.json"));
  EXPECT_EQ(plan["evidence"]["trial"], 0);
  EXPECT_EQ(plan["candidate"]["micro_batch"], shown["rows"][0]["candidate"]["micro_batch"]);
  EXPECT_EQ(first["environment"]["OMP_NUM_THREADS"], "1");

  EXPECT_EQ(run("emit --plan first/plan.json --out first").code, 0) << "the same text is no loss";
  folder_.put("first/plan.json", "something else");
  const CommandResult refused = run("emit --trial 0 --out first");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("first/plan.json"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--force"), std::string::npos) << refused.err;
  EXPECT_EQ(file_text(folder_ / "first/plan.json"), "something else");
  EXPECT_EQ(run("emit --trial 0 --out first --force").code, 0);

  for (const char* line : {"emit --trial 77", "history show 77"}) {
    const CommandResult none = run(line);
    EXPECT_EQ(none.code, 2);
    EXPECT_NE(none.err.find("77: is not there: the study"), std::string::npos) << none.err;
    EXPECT_NE(none.err.find("has trials 0 to 1\n"), std::string::npos) << none.err;
  }
  EXPECT_EQ(run("emit --launcher slurm").code, 2);
  const CommandResult part = run("emit --seq 128");
  EXPECT_EQ(part.code, 2);
  EXPECT_NE(part.err.find("--seq = 128: needs --model"), std::string::npos) << part.err;
  const Json with = one("emit --out with --environment A=b");
  EXPECT_EQ(with["environment"]["A"], "b");
  EXPECT_EQ(one("emit --plan with/plan.json --out again")["environment"]["A"], "b");
  const CommandResult line = run("emit --out second/");
  EXPECT_EQ(line.out.find("OMP_NUM_THREADS=1 planwright probe --plan second/plan.json"), 0u)
      << "a line that a shell runs: " << line.out;
}

TEST_F(TuneProcess, HistoryFiltersByModelDeviceAndTarget) {
  ASSERT_EQ(run("tune study.toml --probes 1").code, 0);
  const auto rows = [&](const std::string& filter) {
    return one("history list " + filter)["rows"].size();
  };
  EXPECT_EQ(rows("--model tiny-llama-kind --target builtin"), 1u);
  EXPECT_EQ(rows("--model gpt2"), 0u);
  EXPECT_EQ(rows("--device cpu"), 1u) << "a kind";
  EXPECT_EQ(rows("--study other"), 0u);
  for (const char* question : {"list", "best"}) {
    const CommandResult none = run(std::string("history ") + question + " --device H100");
    EXPECT_EQ(none.code, 0) << none.err;
    EXPECT_EQ(none.out, "(none)\n");
    EXPECT_EQ(none.err, "warning: nothing matches --device H100\n");
  }
  EXPECT_EQ(one("history list --storage sqlite:///planwright.db")["rows"].size(), 1u)
      << "as Optuna's commands spell it";
  const Json best = one("history best --model tiny-llama-kind");
  EXPECT_EQ(best["rows"][0]["model"], "tiny-llama-kind");
  EXPECT_EQ(best["rows"][0]["number"], 0);
}

TEST_F(TuneProcess, RefusesAStoreOfANewerVersion) {
  ASSERT_EQ(run("tune study.toml --probes 1").code, 0);
  const CommandPlace python{folder_.path(), {}, "/usr/bin/env"};
  const CommandResult changed = run_command(
      python, {"python3", "-c",
               "import sqlite3; c = sqlite3.connect('planwright.db'); "
               "c.execute(\"update alembic_version set version_num = 'v9.9.9.a'\"); c.commit()"});
  ASSERT_EQ(changed.code, 0) << changed.err;
  for (const char* line : {"tune study.toml --probes 2", "history list", "emit"}) {
    const CommandResult result = run(line);
    EXPECT_EQ(result.code, 2) << line;
    EXPECT_NE(result.err.find("v9.9.9.a"), std::string::npos) << result.err;
  }
}

TEST_F(TuneProcess, RefusesAnotherProblemForANamedStudy) {
  ASSERT_EQ(run("tune study.toml --probes 1 --study mine").code, 0);
  const CommandResult other = run("tune study.toml --probes 1 --study mine --seq 16");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("seq"), std::string::npos) << other.err;
  EXPECT_NE(other.err.find("mine"), std::string::npos) << other.err;
}

TEST_F(TuneProcess, EmitsNothingForAnotherProblemThanTheStudys) {
  folder_.put("named.toml", kStudy + "[storage]\nstudy = \"mine\"\n");
  ASSERT_EQ(run("tune named.toml --probes 1").code, 0);
  EXPECT_EQ(run("emit named.toml --out first").code, 0);
  const CommandResult other = run("emit named.toml --seq 16 --out second");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("workload.seq = 16: the study \"mine\" was made with 32"),
            std::string::npos)
      << other.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "second"));
}

TEST_F(TuneProcess, NamesThePlanFileOfAnIllegalCandidate) {
  ASSERT_EQ(run("tune study.toml --probes 1").code, 0);
  ASSERT_EQ(run("emit --out launch").code, 0);
  Json plan = Json::parse(file_text(folder_ / "launch/plan.json"));
  plan["candidate"]["micro_batch"] = 3;
  folder_.put("p.json", plan.dump());
  for (const char* verb : {"emit", "probe"}) {
    const CommandResult refused = run(std::string(verb) + " --plan p.json");
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err.find("planwright: p.json: candidate"), 0u) << refused.err;
    EXPECT_NE(refused.err.find("does not divide it; use a micro-batch"), std::string::npos)
        << refused.err;
    EXPECT_EQ(refused.err.find("did you mean"), std::string::npos) << refused.err;
  }
}

TEST_F(TuneProcess, KeepsEverythingFinishedWhenItIsInterrupted) {
  for (const int signal : {SIGINT, SIGTERM}) {
    RunningCommand tune(place(), words("tune study.toml --json --probes 9 --steps 4000 --study s" +
                                       std::to_string(signal)));
    ASSERT_TRUE(
        comes_true([&] { return tune.out().find("probe_started") != std::string::npos; }, 60));
    kill(tune.pid(), signal);
    const CommandResult result = tune.wait();
    EXPECT_EQ(result.code, 130) << result.err;
    EXPECT_NE(result.err.find("interrupted"), std::string::npos) << result.err;
    EXPECT_EQ(json_lines(result.out).back()["stopped"], "interrupted");
    EXPECT_TRUE(nothing_left());
  }
  EXPECT_EQ(trial_states(), (std::map<std::string, int>{{"FAIL", 2}})) << "no row is left RUNNING";
}

TEST_F(TuneProcess, TriesAgainWhatAKilledTunerLeft) {
  {
    RunningCommand tune(place(), words("tune study.toml --json --steps 4000"));
    ASSERT_TRUE(
        comes_true([&] { return tune.out().find("probe_started") != std::string::npos; }, 60));
    kill(tune.pid(), SIGKILL);
    EXPECT_EQ(tune.wait().code, 128 + SIGKILL);
    EXPECT_TRUE(nothing_left());
  }
  const CommandResult again = run("tune study.toml --probes 1 --json");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("1 probe of a tuner that is gone"), std::string::npos) << again.err;
  const auto lines = json_lines(again.out);
  EXPECT_EQ(lines.front()["number"], 1) << "no trial number twice";
  EXPECT_EQ(trial_states(), (std::map<std::string, int>{{"COMPLETE", 1}, {"FAIL", 1}}));
}

TEST_F(TuneProcess, TwoTunersOfAStudyShareItsProbesAndTheDevices) {
  RunningCommand first(place(), words("tune study.toml --json --probes 4"));
  RunningCommand second(place(), words("tune study.toml --json --probes 4"));
  const CommandResult results[] = {first.wait(), second.wait()};
  std::set<std::string> probes;  // a repeat takes more steps
  std::vector<Json> finished;
  for (const CommandResult& result : results) {
    EXPECT_EQ(result.code, 0) << result.err;
    const auto lines = json_lines(result.out);
    for (const Json& line : lines) {
      if (line["event"] != "probe_finished") continue;
      finished.push_back(line);
      probes.insert(line["candidate"].dump() + std::to_string(line["steps_s"].size()));
    }
  }
  EXPECT_GE(finished.size(), 2u);
  EXPECT_EQ(probes.size(), finished.size()) << "none twice";
  EXPECT_EQ(one("history list")["rows"][0]["trials"]["COMPLETE"], finished.size());
}

TEST_F(TuneProcess, AHostThatCannotProbeIsTheWorldsFailureAndCostsNoProbe) {
  const std::string full = folder_ / "no-such-folder";
  const CommandResult failed =
      run_command({folder_.path(), {{"TMPDIR", full}}}, words("tune study.toml --json"));
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_NE(failed.err.find(full), std::string::npos) << failed.err;
  EXPECT_EQ(json_lines(failed.out).back()["probes"], 0);
  const CommandResult mended = run("tune study.toml --json");
  EXPECT_EQ(mended.code, 0) << mended.err;
  EXPECT_EQ(json_lines(mended.out).back()["probes"], 2);
}

TEST_F(TuneProcess, SaysThatNothingFits) {
  const CommandResult result = run("tune study.toml --memory 8MiB --json");
  EXPECT_EQ(result.code, 3) << result.err;
  for (const char* part : {"none of the 4 candidates fits", "GiB"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << ": " << result.err;
  }
  EXPECT_TRUE(json_lines(result.out).back()["plan"].is_null());
}

TEST_F(TuneProcess, SaysThatNothingIsLegalBeforeAnythingIsMeasuredOrRecorded) {
  const CommandResult result = run("tune study.toml --micro-batch 5 --storage none.db --json");
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(result.err.find("is legal; all of them break global_batch_divides: "),
            std::string::npos)
      << result.err;
  const auto events = json_lines(result.out);
  ASSERT_EQ(events.size(), 1u) << result.out;
  EXPECT_TRUE(events.front()["plan"].is_null());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.db"));
}

TEST_F(TuneProcess, ProbesReallyRunOutOfMemory) {
  const CommandResult result =
      run("probe study.toml --micro-batch 4 --memory 90MiB --headroom 10% --json");
  const Json json = json_lines(result.out).front();
  ASSERT_EQ(result.code, 3) << result.err;
  EXPECT_EQ(json["schema"], "planwright.probe/1");
  EXPECT_EQ(json["outcome"], "out_of_memory");
  EXPECT_EQ(json["out_of_memory"]["capacity_bytes"], 84934656);
  EXPECT_EQ(json["estimate"]["verdict"], "too_large");
}

TEST_F(TuneProcess, RecordsAFailedProbeAndEndsWithTheWorldsFailure) {
  const std::string worker = folder_.put_script("worker", "exit 3");
  const CommandResult result = run("tune study.toml --json --worker " + worker);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("no plan was measured"), std::string::npos) << result.err;
  EXPECT_EQ(trial_states(), (std::map<std::string, int>{{"FAIL", 2}}));

  const CommandResult emitted = run("emit --trial 1");
  EXPECT_EQ(emitted.code, 2);
  EXPECT_NE(emitted.err.find("--trial = 1: "), std::string::npos) << emitted.err;
  EXPECT_NE(emitted.err.find(" when it was measured; emit a measured one\n"), std::string::npos)
      << "and there is none: " << emitted.err;
  ASSERT_EQ(run("tune study.toml --probes 9").code, 0);
  EXPECT_NE(run("emit --trial 1").err.find("; did you mean "), std::string::npos);
}

TEST_F(TuneProcess, CannotWriteItsStore) {
  if (getuid() == 0) {
    EXPECT_EQ(run("tune study.toml --storage /proc/planwright.db").code, 2);
  } else {
    EXPECT_EQ(run("tune study.toml --storage /planwright.db").code, 2);
  }
}

TEST_F(TuneProcess, TellsItsStoryOnStderrUnlessQuiet) {
  const CommandResult told = run("tune study.toml --probes 1");
  EXPECT_EQ(told.code, 0);
  for (const char* part : {"#0", "why", "predicted", "measured", "ok, "}) {
    EXPECT_NE(told.err.find(part), std::string::npos) << part << ": " << told.err;
  }
  EXPECT_EQ(told.err.find('\r'), std::string::npos) << "no live line without a terminal";
  EXPECT_NE(told.out.find("best plan:"), std::string::npos);
  const CommandResult quiet = run("tune study.toml --probes 1 --study other --quiet");
  EXPECT_EQ(quiet.err, "");
}

TEST_F(TuneProcess, WarnsWhereOthersUsedTheMachineMeanwhile) {
  const BusyProcesses neighbours;
  const std::string warning = "warning: the measurement was disturbed: other processes used ";
  const CommandResult probed = run("probe study.toml --micro-batch 1 --zero 0 --json");
  EXPECT_EQ(probed.code, 0) << "and fails nothing: " << probed.err;
  const Json environment = json_lines(probed.out).front()["environment"];
  if (!environment.contains("disturbance")) GTEST_SKIP() << "/proc/stat says nothing here";
  EXPECT_EQ(environment["disturbance"].get<std::string>().find("other processes used "), 0u);
  EXPECT_NE(probed.err.find(warning), std::string::npos) << probed.err;
  const CommandResult tuned = run("tune study.toml --probes 1");
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.err.find(warning), std::string::npos) << tuned.err;
  EXPECT_EQ(run("tune study.toml --probes 1 --study other --quiet").err, "");
}

TEST_F(TuneProcess, DoctorFindsEverythingThatIsNeeded) {
  const Json json = one("doctor");
  std::map<std::string, bool> checks;
  for (const Json& check : json["checks"]) checks[check["name"]] = check["ok"];
  for (const char* name : {"cpu", "memory", "worker", "gloo", "torch", "allocator", "store"}) {
    EXPECT_TRUE(checks[name]) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "planwright.db")) << "it leaves nothing behind";
}

}  // namespace
}  // namespace planwright::testing
