#include "command_tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "tests/support/fault.h"

/// What `tune` and `probe` make of the target command.
namespace planwright::testing {
namespace {

TEST_F(CommandTuneProcess, NeedsNothingButTheCommand) {
  const CommandResult tuned =
      run(kStudy + "--memory 1GiB --probes 6 -- " + script_ + " {micro_batch} {steps}");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Json result = json_lines(tuned.out).back();
  EXPECT_EQ(result["event"], "result");
  EXPECT_EQ(result["counted"], 16) << "powers of two, and half-way between";
  EXPECT_EQ(result["candidate"]["micro_batch"], 96)
      << "the fastest whose peak fits: 128 would take more than a GiB: " << tuned.err;
  EXPECT_NEAR(result["measured"]["tokens_per_second_per_device"].get<double>(), 96 / 0.106, 1);
  EXPECT_EQ(result["command"], Json({script_, "96", "STEPS"})) << "a probe's are not the job's";
  EXPECT_NE(file_text(folder_ / "runs").find(" 4\n"), std::string::npos)
      << "a probe makes one step of warm-up and three that are measured";

  const CommandResult again =
      run(kStudy + "--memory 1GiB --probes 6 -- " + script_ + " {micro_batch} {steps}");
  EXPECT_EQ(json_lines(again.out).back()["probes"], result["probes"]) << "the same study";
  const CommandResult other =
      run(kStudy + "--memory 1GiB --probes 1 -- " + script_ + " {micro_batch}");
  EXPECT_EQ(json_lines(other.out).back()["probes"], 1) << "another command is another study";
}

TEST_F(CommandTuneProcess, MakesUpNoTokensForAnUnknownModel) {
  const std::string command = " --storage a.db -- " + script_ + " {micro_batch}";
  std::string tune = kStudy + "--memory 1GiB --probes 2 --micro-batch 32,64";
  tune.erase(tune.find(" --json"), 7);
  const CommandResult unknown = run(tune + command);
  ASSERT_EQ(unknown.code, 0) << unknown.err;
  std::string all = unknown.out + unknown.err;
  for (const char* line : {"history list --storage a.db", "history best --storage a.db",
                           "history show 0 --storage a.db"}) {
    all += run(line).out;
  }
  EXPECT_NE(all.find("command: global batch of a plan\n"), std::string::npos) << all;
  EXPECT_NE(all.find("\n  865 sequences/s/device, step 74.0 ms"), std::string::npos) << all;
  EXPECT_EQ(all.find("seq 1"), std::string::npos) << all;
  EXPECT_EQ(all.find("pretrain"), std::string::npos) << all;
  std::size_t tokens = 0;
  for (std::size_t at = 0; (at = all.find("tokens", at)) != all.npos; ++at) ++tokens;
  EXPECT_EQ(tokens, 2u) << "in the headings of lists, whose rows say what they count\n" << all;

  const CommandResult known = run(tune + " --seq 128" + command);
  EXPECT_NE(known.out.find("seq 128, global batch of a plan"), std::string::npos) << known.out;
  EXPECT_NE(known.out.find("110703 tokens/s/device"), std::string::npos) << known.out;
}

TEST_F(CommandTuneProcess, MakesUpNoFiguresForAnUnknownModel) {
  const std::string command = "--memory 1GiB --probes 4 -- " + script_ + " {micro_batch}";
  const CommandResult tuned = run(kStudy + command);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.err.find("     predicted  "), tuned.err.find("     predicted  not known\n"));
  EXPECT_NE(tuned.err.find("why        nothing is known of the model yet\n"), std::string::npos);
  const std::vector<Json> events = json_lines(tuned.out);
  const Json nothing{{"allocated_bytes", nullptr},
                     {"step_time_s", nullptr},
                     {"tokens_per_second_per_device", nullptr},
                     {"fit_probability", nullptr}};
  EXPECT_EQ(events[0]["predicted"], nothing);
  EXPECT_EQ(events[1]["predicted"], nothing);
  EXPECT_EQ(events.back()["error_before"], nullptr);
  EXPECT_GT(events.back()["error_after"], 0);
  const Json last = events[events.size() - 4];
  ASSERT_EQ(last["event"], "probe_started");
  EXPECT_NEAR(last["predicted"]["allocated_bytes"].get<double>(), (96 + 8 * 96) << 20, 1 << 24)
      << "what measurements have corrected is a prediction: " << tuned.err;
  EXPECT_NEAR(last["predicted"]["step_time_s"].get<double>(), 0.106, 0.004);

  const std::string nobody =
      "predicted  measured\nallocated           not known    0.1016\n"
      "step ms             not known      11.0\n"
      "sequences/s/device  not known        91\n";
  EXPECT_NE(run("history show 0").out.find(nobody), std::string::npos);
  EXPECT_EQ(json_lines(run("history show 0 --json").out)[0]["rows"][0]["estimate"]["step_time_s"],
            nullptr);
  const std::string probe = "probe --target command --device cpu --devices 1 --threads 1 -- " +
                            script_ + " {micro_batch}";
  EXPECT_NE(run(probe).out.find(nobody), std::string::npos);
  const Json estimate =
      json_lines(run(probe.substr(0, 6) + "--json " + probe.substr(6)).out)[0]["estimate"];
  EXPECT_EQ(estimate["peak"]["allocated_bytes"], nullptr);
  EXPECT_EQ(estimate["parameters"]["total"], nullptr);
  EXPECT_EQ(estimate["time"], nullptr);
}

/// Nothing is known of the model, so that neither its largest nor its first micro-batch says where
/// it is fastest: 50 ms and half a millisecond per sample squared; and 30 ms per sample up to 16,
/// then 50.
TEST_F(CommandTuneProcess, FindsTheFastestMicroBatchHoweverTheModelGrows) {
  const std::string head = R"(#!/bin/sh
us=)";
  const std::string tail = R"(
printf '{"step_time_s": %d.%06d}' $(($us / 1000000)) $(($us % 1000000)) > "$PLANWRIGHT_REPORT"
)";
  const std::string squared =
      folder_.put_script("squared", head + "$((50000 + 500 * $1 * $1))" + tail);
  const std::string cliff =
      folder_.put_script("cliff", head + "$((10000 + $1 * ($1 > 16 ? 50000 : 30000)))" + tail);
  const auto best = [&](const std::string& script) {
    const CommandResult tuned =
        run(kStudy + "--memory 64GiB --storage " + script + ".db -- " + script + " {micro_batch}");
    return json_lines(tuned.out).back()["candidate"]["micro_batch"];
  };
  EXPECT_EQ(best(squared), 12);
  EXPECT_EQ(best(cliff), 16);
}

TEST_F(CommandTuneProcess, SaysThatTheScriptIsAnotherThanWasMeasured) {
  const std::string line =
      kStudy + "--memory 1GiB --probes 1 --micro-batch 8 -- " + script_ + " {micro_batch}";
  ASSERT_EQ(run(line).code, 0);
  EXPECT_EQ(run(line).err.find("was changed"), std::string::npos);
  const auto later = std::filesystem::file_time_type::clock::now() + std::chrono::seconds(10);
  std::filesystem::last_write_time(script_, later);
  EXPECT_NE(run(line).err.find(script_ + " was changed after the last trial"), std::string::npos);
}

TEST_F(CommandTuneProcess, HasTheAxesOfItsFlags) {
  folder_.put("study.toml", kStudyFile + R"(command = ["./train", "{micro_batch}"]
[launch.flags]
recompute = { none = "", full = "--again" }
[space]
micro_batch = [4, 8]
)");
  const CommandResult tuned = run("tune study.toml --probes 4 --json");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(json_lines(tuned.out).back()["counted"], 4);
  EXPECT_NE(file_text(folder_ / "runs").find(" --again\n"), std::string::npos);
}

TEST_F(CommandTuneProcess, SaysWhatIsLeftOutAndWhy) {
  const CommandResult tuned =
      run(kStudy + "--memory 1GiB --probes 1 --recompute none,full --micro-batch 4,8 -- " +
          script_ + " {micro_batch}");
  EXPECT_EQ(tuned.code, 0);
  EXPECT_NE(tuned.err.find("left out, 2 candidates: command does not support recompute full; the "
                           "command names recompute neither in braces nor in [launch.flags]"),
            std::string::npos)
      << tuned.err;
}

TEST_F(CommandTuneProcess, RefusesAProgramThatIsNotThereBeforeAStudyIsMade) {
  for (const std::string& verb : {kStudy, std::string("probe --target command --device cpu "
                                                      "--devices 1 --threads 1 ")}) {
    const CommandResult refused = run(verb + " -- pyhton3 " + script_ + " {micro_batch}");
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find("pyhton3: is not in the PATH"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("did you mean python3"), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "planwright.db"));
}

TEST_F(CommandTuneProcess, HasNothingToTuneInACommandThatNamesNoAxis) {
  const std::string bare = " -- " + script_ + " 8 --steps={steps} {dp}";
  const CommandResult tuned = run(kStudy + bare);
  EXPECT_EQ(tuned.code, 2);
  EXPECT_EQ(tuned.err.find("planwright: command line: --: names nothing of a plan, so that there "
                           "is nothing to tune: put {tp} or {pp} or"),
            0u)
      << tuned.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  EXPECT_EQ(run("probe --target command --device cpu --devices 1 --threads 1" + bare).code, 0);
  EXPECT_EQ(run(kStudy + "--probes 1 --global-batch 8 -- " + script_ + " {accumulation}").code, 0)
      << "a micro-batch that follows from the global batch";
}

TEST_F(CommandTuneProcess, SaysWhichAxisTheCommandLacks) {
  const std::string lacks = "the command names zero neither in braces nor in [launch.flags]";
  const std::string command = " -- " + script_ + " {micro_batch}";
  const CommandResult tuned = run(kStudy + "--zero 2" + command);
  EXPECT_EQ(tuned.code, 3);
  EXPECT_NE(tuned.err.find("does not support zero 2; " + lacks), std::string::npos) << tuned.err;
  const CommandResult probed =
      run("probe --target command --device cpu --devices 1 --threads 1 --micro-batch 8 --zero 2" +
          command);
  EXPECT_EQ(probed.code, 2);
  EXPECT_NE(probed.err.find(lacks), std::string::npos) << probed.err;
}

TEST_F(CommandTuneProcess, RefusesThreadsThatAreNotThePlanners) {
  using namespace std::string_literals;
  const std::string given = " -- " + script_ + " {micro_batch}";
  const std::string rule =
      "planwright: command line: --environment = OMP_NUM_THREADS=3: contradicts --threads, by "
      "which "
      "ranks on a CPU are estimated and started: 1 each; did you mean --threads 3?\n";
  const std::string probe = "probe --target command --device cpu --devices 1 --threads 1 ";
  ASSERT_EQ(run(kStudy + "--probes 1 --micro-batch 4" + given).code, 0);
  ASSERT_EQ(run("emit --out a" + given).code, 0);
  for (const std::string& line :
       {kStudy + "--environment OMP_NUM_THREADS=3" + given,
        probe + "--micro-batch 4 --environment OMP_NUM_THREADS=3" + given,
        "probe --plan a/plan.json --environment OMP_NUM_THREADS=3"s,
        "probe --model smollm-135m --seq 8 --device cpu --devices 1 --threads 1 "
        "--environment OMP_NUM_THREADS=3"s}) {
    const CommandResult refused = run(line);
    EXPECT_EQ(refused.code, 2) << line;
    EXPECT_EQ(refused.err, rule) << line;
  }
  EXPECT_EQ(run(probe + "--micro-batch 4 --environment OMP_NUM_THREADS=1" + given).code, 0)
      << "no contradiction";
}

TEST_F(CommandTuneProcess, StartsNothingWhoseScriptIsNotThere) {
  folder_.put("trains.py", "");
  const std::string here = std::filesystem::canonical(folder_.path());
  const std::string rule =
      "train.py: is not there in " + here + ", where the command would be run; did you mean ";
  const std::string given = " -- python3 train.py {micro_batch}";
  const CommandResult tuned = run(kStudy + "--storage s.db" + given);
  EXPECT_EQ(tuned.code, 2);
  EXPECT_EQ(tuned.err, "planwright: command line: -- = " + rule + "trains.py?\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s.db"));
  EXPECT_EQ(run("probe --target command --device cpu --devices 1 --threads 1" + given).err,
            tuned.err);

  std::filesystem::rename(folder_ / "trains.py", folder_ / "train.py");
  folder_.put("train.py", R"(import json, os
json.dump({"step_time_s": 1}, open(os.environ["PLANWRIGHT_REPORT"], "w"))
)");
  ASSERT_EQ(run(kStudy + "--probes 1 --storage s.db" + given).code, 0);
  EXPECT_EQ(run("emit --storage s.db").err.find("is not there"), std::string::npos);
  std::filesystem::rename(folder_ / "train.py", folder_ / "trains.py");
  const CommandResult emitted = run("emit --storage s.db --out b --json");
  EXPECT_EQ(emitted.code, 0) << emitted.err;
  EXPECT_EQ(json_lines(emitted.out).back()["warnings"],
            Json({"train.py is not there in " + here + ", where the command will be run"}));
  EXPECT_EQ(run("probe --plan b/plan.json").err,
            "planwright: b/plan.json: command = " + rule + "trains.py?\n");
}

TEST_F(CommandTuneProcess, AStudyBringsItsCommand) {
  folder_.put("job.yaml", "batch: {micro_batch}\n");
  const std::string words = script_ + " {micro_batch} {template}";
  const std::string given = "--environment A=b --template job.yaml -- " + words;
  ASSERT_EQ(run(kStudy + "--probes 1 --micro-batch 4 --study n --storage s.db " + given).code, 0);
  ASSERT_EQ(run("emit --storage s.db --out a " + given).code, 0);
  std::filesystem::rename(folder_ / "job.yaml", folder_ / "moved.yaml");
  const CommandResult emitted = run("emit --storage s.db --study n --out b");
  ASSERT_EQ(emitted.code, 0) << emitted.err;
  EXPECT_EQ(emitted.out, "A=b OMP_NUM_THREADS=1 " + script_ + " 4 b/job.yaml\n");
  EXPECT_EQ(file_text(folder_ / "a/plan.json"), file_text(folder_ / "b/plan.json"));

  const CommandResult other = run("emit --storage s.db --study n -- ./other {micro_batch}");
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.err.find("planwright: command line: -- = ./other '{micro_batch}': is another "
                           "command than study n's: " +
                           script_),
            0u)
      << other.err;
  const CommandResult another =
      run(("emit --storage s.db --study n --target command --devices 1 -- ./other {micro_batch}"));
  EXPECT_EQ(another.code, 2);
  EXPECT_EQ(another.err, other.err);
  EXPECT_EQ(run(kStudy + "--study n --storage s.db -- ./other {micro_batch}").err, other.err)
      << "tune";

  const CommandPlace python{folder_.path(), {}, "/usr/bin/env"};
  const CommandResult forgotten = run_command(
      python, {"python3", "-c",
               "import sqlite3; c = sqlite3.connect('s.db'); c.execute(\"delete from "
               "study_user_attributes where key = 'planwright:command'\"); c.commit()"});
  ASSERT_EQ(forgotten.code, 0) << forgotten.err;
  const CommandResult old = run("emit --storage s.db --study n --out c");
  EXPECT_EQ(old.code, 2);
  EXPECT_EQ(old.err.find("planwright: s.db: --target = command: needs the command behind --, which "
                         "is: " +
                         script_ + " '{micro_batch}' '{template}' ["),
            0u)
      << old.err;
  folder_.put("job.yaml", "batch: {micro_batch}\n");
  EXPECT_EQ(run("emit --storage s.db --study n --out c " + given).code, 0);
}

TEST_F(CommandTuneProcess, SaysWhichCommandAStudyIsNotOf) {
  folder_.put("job.yaml", "batch: {micro_batch}\n");
  const auto study = [&](const std::string& words) {
    folder_.put("s.toml", kStudyFile + "command = [\"./train\", \"{micro_batch}\"" + words +
                              "]\ntemplate = \"job.yaml\"\n[space]\nmicro_batch = [4]\n");
  };
  study(R"(, "{template}")");
  ASSERT_EQ(run("tune s.toml --json --study first").code, 0);
  const Json last = json_lines(run("tune s.toml --json").out).back();
  const std::string name = last["study"];
  const std::string remedy = "emit --study " + name +
                             ", without a command, takes that one; tune, without --study " + name +
                             ", measures this one\n";

  folder_.put("job.yaml", "batches: {micro_batch}\n");
  const CommandResult text = run("emit s.toml");
  EXPECT_EQ(text.code, 2);
  EXPECT_EQ(text.err,
            "planwright: s.toml: [launch] template = job.yaml: is another text than the "
            "template that study " +
                name + " was measured with; " + remedy);
  EXPECT_EQ(run("emit s.toml --study " + name).err, text.err);
  EXPECT_EQ(run("tune s.toml --study " + name).err, text.err);

  study(R"(, "{template}", "again")");
  const CommandResult words = run("emit s.toml");
  EXPECT_EQ(words.code, 2);
  EXPECT_EQ(words.err.find("planwright: s.toml: [launch] command = ./train '{micro_batch}' "
                           "'{template}' again [template "),
            0u)
      << words.err;
  EXPECT_NE(words.err.find("]: is another command than study " + name +
                           "'s: ./train '{micro_batch}' '{template}' [template "),
            std::string::npos)
      << words.err;
  EXPECT_TRUE(words.err.ends_with("]; " + remedy)) << words.err;
  EXPECT_EQ(run("tune s.toml --study " + name).err, words.err);

  const CommandResult other = run("emit s.toml --seq 8");
  EXPECT_NE(other.err.find("there is no such study"), std::string::npos) << other.err;
  ASSERT_EQ(run("tune s.toml").code, 0) << "another study";
  EXPECT_EQ(run("emit s.toml").code, 0);
}

TEST_F(CommandTuneProcess, EndsWhenEveryPlanFailsAlikeAndSaysHowToGoOn) {
  const std::string broken = folder_.put_script("broken", "#!/bin/sh\necho no such flag\nexit 2\n");
  const std::string line = kStudy + "--probes 3 -- " + broken + " {micro_batch}";
  const CommandResult first = run(line);
  EXPECT_EQ(first.code, 1) << first.err;
  EXPECT_EQ(json_lines(first.out).back()["stopped"], "3 plans failed alike");
  EXPECT_NE(first.err.find("begin another study (--study NAME)"), std::string::npos) << first.err;
  const CommandResult again = run(line);
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("trial 2, of an earlier run: crashed"), std::string::npos) << again.err;
}

TEST_F(CommandTuneProcess, SaysThatNothingFitsOnlyIfAllWasTried) {
  const std::string full = folder_.put_script(
      "full", "#!/bin/sh\necho CUDA out of memory. Tried to allocate 2.00 GiB.\nexit 1\n");
  const std::string command = " -- " + full + " {micro_batch}";
  const std::string known =
      kStudy + "--memory 64GiB --micro-batch 2,4,8 --model smollm-135m --seq 128 ";
  const std::string unknown = kStudy + "--memory 1GiB --micro-batch 2,4,8 ";
  for (const std::string& line : {known, unknown}) {
    const CommandResult some = run(line + "--probes 1" + command);
    EXPECT_EQ(some.code, 1) << some.err;
    EXPECT_NE(some.err.find("\nplanwright: no plan was measured: 1 of 3 candidates was tried, and "
                            "ran out of memory; the budget of 1 probe is spent: allow more"),
              std::string::npos)
        << some.err;
    const CommandResult all = run(line + "--probes 9" + command);
    EXPECT_EQ(all.code, 3) << all.err;
    EXPECT_NE(all.err.find("\nplanwright: every probe ran out of memory; the nearest, dp 1, "),
              std::string::npos)
        << "of an unknown model, too, whose stand-in has sizes: " << all.err;
  }
}

TEST_F(CommandTuneProcess, AProbeSaysWhatIsKnownAndWhoSaysSo) {
  const CommandResult probed =
      run("probe --target command --device cpu --devices 1 --threads 1 --micro-batch 8 --json -- " +
          script_ + " {micro_batch}");
  ASSERT_EQ(probed.code, 0) << probed.err;
  const Json json = json_lines(probed.out).back();
  EXPECT_EQ(json["environment"]["witness"], "report");
  EXPECT_EQ(json["ranks"][0]["whole_peak_bytes"], (96 + 64) * 1048576);
  EXPECT_EQ(json["ranks"][0]["accounts"], nullptr);
}

TEST_F(CommandTuneProcess, ACommandThatMeasuresNothingSaysWhy) {
  folder_.put_script("idle", "#!/bin/sh\nexit 0\n");
  const CommandResult probed =
      run("probe --target command --device cpu --devices 1 --threads 1 -- ./idle {micro_batch}");
  EXPECT_EQ(probed.code, 1);
  EXPECT_NE(probed.err.find("no process of it loaded the observer"), std::string::npos)
      << probed.err;
}

}  // namespace
}  // namespace planwright::testing
