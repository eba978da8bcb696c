#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "command_tune.h"
#include "tests/support/fault.h"

/// What `emit` writes of a study of the target command, and that it can be launched.
namespace planwright::testing {
namespace {

class CommandEmitProcess : public CommandTuneProcess {};

/// What stands behind `key` on a line of the text.
std::string line_behind(const std::string& text, const std::string& key) {
  const std::size_t begin = text.find(key);
  if (begin == std::string::npos) return "";
  const std::size_t words = text.find_first_not_of(' ', begin + key.size());
  return text.substr(words, text.find('\n', words) - words);
}

/// How many steps are trained is no part of a plan.
TEST_F(CommandEmitProcess, AsksForTheStepsOfALaunch) {
  const CommandResult tuned = run(kStudy + "--memory 1GiB --probes 1 --micro-batch 8 -- " +
                                  script_ + " {micro_batch} --steps={steps}");
  EXPECT_EQ(tuned.code, 0);
  const auto emit = json_lines(tuned.out).back()["emit"].get<std::vector<std::string>>();
  EXPECT_EQ(std::vector(emit.end() - 2, emit.end()),
            (std::vector<std::string>{"--steps", "STEPS"}));
}

TEST_F(CommandEmitProcess, EmitsWhatItMeasuredAndOfAnotherCommandNothing) {
  folder_.put("job.yaml", "batch: {micro_batch}\n");
  folder_.put("used.yaml", "batch: 3\nown: 1\n");
  const CommandResult tuned =
      run(kStudy + "--memory 1GiB --probes 2 --micro-batch 64 " + "--template job.yaml -- " +
          script_ + " {micro_batch} {template}");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Json result = json_lines(tuned.out).back();

  auto emit = result["emit"].get<std::vector<std::string>>();
  emit.erase(emit.begin());
  *(std::find(emit.begin(), emit.end(), "--out") + 1) = "out";
  const CommandResult emitted = run_command({folder_.path()}, emit);
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  EXPECT_EQ(emitted.out, "OMP_NUM_THREADS=1 " + script_ + " 64 out/job.yaml\n");
  EXPECT_EQ(file_text(folder_ / "out/job.yaml"), "batch: 64\n");

  const TestFolder elsewhere;
  const CommandPlace place{
      elsewhere.path(), {{"PLANWRIGHT_REPORT", "/dev/null"}}, folder_ / "out/launch.sh"};
  EXPECT_EQ(run_command(place, {}).code, 0);
  const std::string runs = file_text(folder_ / "runs");
  EXPECT_TRUE(runs.ends_with("/out/job.yaml\n") && runs.find("\n64 /") != runs.npos) << runs;

  emit.insert(emit.begin() + 1, {"--diff", "used.yaml", "--json"});
  const CommandResult compared = run_command({folder_.path()}, emit);
  ASSERT_EQ(compared.code, 0) << compared.err;
  EXPECT_EQ(json_lines(compared.out).back()["diff"].dump(),
            R"([{"key":"batch","in_use":3,"planned":64}])");
  EXPECT_EQ(json_lines(compared.out).back()["diff_own"], Json::parse(R"(["own"])"));
  EXPECT_EQ(compared.err, "") << "what is to be done for a launch is not asked";

  const CommandResult other = run("emit -- " + script_ + " {micro_batch}");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("is another command than study " + result["study"].get<std::string>() +
                           "'s: " + script_),
            std::string::npos)
      << other.err;
}

TEST_F(CommandEmitProcess, LaunchesInTheEnvironmentInWhichItMeasured) {
  folder_.put_script("greet", "#!/bin/sh\necho \"$GREETING\" >> greetings\nexec ./train \"$@\"\n");
  const auto study = [](const std::string& greeting) {
    return kStudyFile + R"(command = ["./greet", "{micro_batch}"]
environment = { GREETING = ")" +
           greeting + R"(" }
[space]
micro_batch = [4]
)";
  };
  const std::string greeting = "it's $(touch owned) `id`; \"";
  folder_.put("study.toml", study("it's $(touch owned) `id`; \\\""));
  const auto last_greeting = [&] {
    std::string said = file_text(folder_ / "greetings");
    std::filesystem::remove(folder_ / "greetings");
    return said.substr(said.rfind('\n', said.size() - 2) + 1);
  };
  const CommandResult tuned = run("tune study.toml --json");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(last_greeting(), greeting + "\n");
  const Json environment{{"GREETING", greeting}, {"OMP_NUM_THREADS", "1"}};
  EXPECT_EQ(json_lines(tuned.out).back()["environment"], environment);

  const CommandResult emitted = run("emit study.toml --out out");
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  const std::map<std::string, std::string> report{{"PLANWRIGHT_REPORT", "/dev/null"}};
  const std::string launch = folder_ / "out/launch.sh";
  EXPECT_EQ(run_command({folder_.path(), report, launch}, {}).code, 0);
  EXPECT_EQ(last_greeting(), greeting + "\n") << "launch.sh";
  EXPECT_EQ(run_command({folder_.path(), report, "/bin/sh"}, {"-c", emitted.out}).code, 0);
  EXPECT_EQ(last_greeting(), greeting + "\n") << "the line";
  EXPECT_EQ(Json::parse(file_text(folder_ / "out/origin.json"))["environment"], environment);
  const CommandResult probed = run("probe --plan out/plan.json");
  EXPECT_EQ(probed.code, 0) << probed.err;
  EXPECT_EQ(probed.err.find("was made for version"), std::string::npos) << probed.err;
  EXPECT_EQ(last_greeting(), greeting + "\n") << "probe --plan";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "owned"));

  const CommandResult other = run("emit --plan out/plan.json --out b --environment GREETING=no");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("is another command than the plan's"), std::string::npos) << other.err;
  folder_.put("study.toml", study("no"));
  ASSERT_EQ(run("tune study.toml").code, 0);
  EXPECT_EQ(last_greeting(), "no\n") << "another study, which is measured";
}

TEST_F(CommandEmitProcess, PrintsTwoLinesThatWorkOneAfterTheOther) {
  const std::string own = "batch: {micro_batch}\n";
  folder_.put("train.yaml", own);
  folder_.put_script("read", "#!/bin/sh\ncat $2 >> seen\nexec ./train \"$@\"\n");
  folder_.put("s.toml", kStudyFile + R"(command = ["./read", "{micro_batch}", "{template}"]
template = "train.yaml"
[space]
micro_batch = [4]
[storage]
storage = "s.db"
)");
  const CommandResult tuned = run("tune s.toml");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const std::string emit = line_behind(tuned.out, "write the launch files:");
  ASSERT_EQ(emit.find("planwright emit "), 0u) << tuned.out;
  const CommandResult emitted = run(emit.substr(emit.find(' ') + 1));
  EXPECT_EQ(emitted.code, 0) << emitted.err;
  std::filesystem::remove(folder_ / "seen");
  const std::string launch = line_behind(tuned.out, "then launch it:");
  EXPECT_EQ(launch, "OMP_NUM_THREADS=1 ./read 4 launch/train.yaml");
  const CommandPlace shell{folder_.path(), {{"PLANWRIGHT_REPORT", "/dev/null"}}, "/bin/sh"};
  EXPECT_EQ(run_command(shell, {"-c", launch}).code, 0);
  EXPECT_EQ(file_text(folder_ / "seen"), "batch: 4\n");
  EXPECT_EQ(file_text(folder_ / "train.yaml"), own);
}

TEST_F(CommandEmitProcess, WritesBesideNobodysFilesUnlessToldTo) {
  const std::string own = "batch: {micro_batch}\n";
  folder_.put("train.yaml", own);
  folder_.put("s.toml", kStudyFile + R"(command = ["./train", "{micro_batch}", "{template}"]
template = "train.yaml"
[space]
micro_batch = [4]
)");
  ASSERT_EQ(run("tune s.toml").code, 0);
  const CommandResult emitted = run("emit");
  EXPECT_EQ(emitted.code, 0) << emitted.err;
  EXPECT_EQ(emitted.out, "OMP_NUM_THREADS=1 ./train 4 launch/train.yaml\n");
  EXPECT_EQ(file_text(folder_ / "launch/train.yaml"), "batch: 4\n");
  EXPECT_EQ(file_text(folder_ / "train.yaml"), own);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "plan.json"));

  const CommandResult here = run("emit --out .");
  EXPECT_EQ(here.code, 2);
  EXPECT_EQ(file_text(folder_ / "train.yaml"), own);
}

TEST_F(CommandEmitProcess, AnEmittedPlanBringsItsCommand) {
  folder_.put("job.yaml", "batch: {micro_batch}\n");
  const std::string command =
      "--template job.yaml -- " + script_ + " {micro_batch} it's {{x}} {template}";
  ASSERT_EQ(run(kStudy + "--memory 1GiB --probes 1 --micro-batch 64 " + command).code, 0);
  const CommandResult first = run("emit --out a " + command);
  ASSERT_EQ(first.code, 0) << first.err;
  std::filesystem::remove(folder_ / "job.yaml");
  const CommandResult again = run("emit --plan a/plan.json --out b");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, "OMP_NUM_THREADS=1 " + script_ + " 64 'it'\\''s' '{x}' b/job.yaml\n");
  EXPECT_EQ(file_text(folder_ / "b/job.yaml"), "batch: 64\n");
  EXPECT_EQ(file_text(folder_ / "a/plan.json"), file_text(folder_ / "b/plan.json"));
  EXPECT_EQ(run("probe --plan a/plan.json").code, 0) << "it can be measured again";

  const CommandResult other = run("emit --plan a/plan.json --out c -- " + script_ + " {tp}");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("is another command than the plan's"), std::string::npos) << other.err;

  Json plan = Json::parse(file_text(folder_ / "a/plan.json"));
  plan["command"]["words"] = 3;
  folder_.put("wrong.json", plan.dump());
  const CommandResult wrong = run("emit --plan wrong.json");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err.find("planwright: wrong.json: command: is not a command"), 0u) << wrong.err;
  plan.erase("command");
  folder_.put("old.json", plan.dump());
  EXPECT_NE(run("emit --plan old.json").err.find("needs the command behind --"), std::string::npos);
}

TEST_F(CommandEmitProcess, EmitsTheStepsThatAreAskedForAndNotAProbes) {
  const std::string command = " -- " + script_ + " {micro_batch} --steps={steps}";
  ASSERT_EQ(run(kStudy + "--memory 1GiB --probes 1 --micro-batch 64" + command).code, 0);
  const CommandResult unsaid = run("emit --out a" + command);
  EXPECT_EQ(unsaid.out, "OMP_NUM_THREADS=1 " + script_ + " 64 --steps=STEPS\n") << unsaid.err;
  EXPECT_NE(unsaid.err.find("{steps} is no part of a plan: give --steps N"), std::string::npos);
  const CommandResult given = run("emit --out b --steps 5000" + command);
  EXPECT_EQ(given.out, "OMP_NUM_THREADS=1 " + script_ + " 64 --steps=5000\n");
  EXPECT_EQ(given.err.find("steps"), std::string::npos) << given.err;

  const std::string unnamed = " -- " + script_ + " {micro_batch}";
  ASSERT_EQ(run(kStudy + "--memory 1GiB --probes 1 --micro-batch 64 --study b" + unnamed).code, 0);
  const CommandResult idle = run("emit --study b --out c --steps 5000" + unnamed);
  EXPECT_EQ(idle.code, 2);
  EXPECT_NE(idle.err.find("--steps = 5000: is what {steps} stands for"), std::string::npos)
      << idle.err;
}

}  // namespace
}  // namespace planwright::testing
