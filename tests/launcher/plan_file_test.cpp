#include "launcher/plan_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "launcher/target.h"
#include "tests/support/fake_traits.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

using testing::TestFolder;

PlanFile some_plan() {
  PlanFile plan;
  plan.problem = testing::fake_problem(testing::tiny_gpt(), 2, Precision::fp32);
  plan.candidate = testing::data_parallel(2, 1, 2, RecomputeKind::full);
  plan.candidate.knobs = {{"bucket_elements", "1048576"}};
  plan.evidence = {EvidenceKind::measured, "study", 4, 0.5, 1000.0, Bytes{123456}};
  return plan;
}

TEST(PlanFile, ComesBackAsItWasWritten) {
  const TestFolder folder;
  PlanFile plan = some_plan();
  EXPECT_EQ(load_plan_file(folder.put("a.json", to_json(plan).dump(2))), plan);
  plan.evidence = {};
  EXPECT_EQ(load_plan_file(folder.put("b.json", to_json(plan).dump())), plan);
}

TEST(PlanFile, KnowsHowATrialWasBelieved) {
  Trial trial;
  trial.number = 7;
  trial.estimate.step_time = Seconds{2};
  trial.estimate.stages = {StageEstimate{}};
  trial.outcome.value = Failure{};
  const PlanFile predicted = plan_of({}, trial, "s");
  EXPECT_EQ(predicted.evidence.kind, EvidenceKind::predicted);
  EXPECT_EQ(predicted.evidence.step_time_s, 2.0);

  Measurement measured;
  measured.ranks = {RankMeasurement{}};
  measured.step_time_s = 1.5;
  trial.outcome.value = measured;
  const PlanFile proven = plan_of({}, trial, "s");
  EXPECT_EQ(proven.evidence.kind, EvidenceKind::measured);
  EXPECT_EQ(proven.evidence.step_time_s, 1.5);
  EXPECT_EQ(proven.evidence.trial, 7);
  EXPECT_EQ(proven.evidence.study, "s");
}

struct BadCase {
  const char* name;
  std::function<void(Json&)> spoil;
  const char* key;
  const char* nearest;
};

TEST(PlanFile, ABrokenOneIsRefusedByKey) {
  const BadCase cases[] = {
      {"another schema", [](Json& j) { j["schema"] = "planwright.plan_file/9"; }, "schema",
       "planwright.plan_file/1"},
      {"no schema", [](Json& j) { j.erase("schema"); }, "schema", ""},
      {"no problem", [](Json& j) { j.erase("problem"); }, "problem", ""},
      {"unknown key", [](Json& j) { j["evidense"] = 1; }, "evidense", "evidence"},
      {"unknown evidence", [](Json& j) { j["evidence"]["trail"] = 1; }, "evidence.trail",
       "evidence.trial"},
      {"evidence is a list", [](Json& j) { j["evidence"] = Json::array(); }, "evidence.", ""},
      {"misspelt kind", [](Json& j) { j["evidence"]["kind"] = "mesured"; }, "evidence.kind",
       "measured"},
      {"a text for a number", [](Json& j) { j["evidence"]["trial"] = "4"; }, "evidence.trial", ""},
      {"a fraction of a trial", [](Json& j) { j["evidence"]["trial"] = 4.5; }, "evidence.trial",
       ""},
      {"a negative time", [](Json& j) { j["evidence"]["step_time_s"] = -1; },
       "evidence.step_time_s", ""},
      {"a number for a text", [](Json& j) { j["evidence"]["study"] = 3; }, "evidence.study", ""},
  };
  const TestFolder folder;
  for (const BadCase& each : cases) {
    Json json = to_json(some_plan());
    each.spoil(json);
    try {
      load_plan_file(folder.put("plan.json", json.dump()));
      ADD_FAILURE() << each.name << ": no error";
    } catch (const InputError& error) {
      EXPECT_EQ(error.fault().file, folder / "plan.json") << each.name;
      EXPECT_EQ(error.fault().key, each.key) << each.name;
      EXPECT_EQ(error.fault().nearest, each.nearest) << each.name;
    }
  }
}

TEST(PlanFile, WhatIsNoPlanAtAllIsAnInputError) {
  const TestFolder folder;
  const std::string paths[] = {
      folder / "missing.json",
      folder.path(),
      folder.put("empty", ""),
      folder.put("text", "hello"),
      folder.put("list", "[1]"),
      folder.put("binary", std::string("\x00\xff\x01", 3)),
      folder.put("number", "3"),
      folder.put("torn", to_json(some_plan()).dump().substr(0, 99)),
      folder.put("deep", std::string(100000, '[')),
      "/dev/zero",
      folder.put("long", std::string(17 * 1024 * 1024, ' ')),
  };
  for (const std::string& path : paths) {
    EXPECT_THROW(load_plan_file(path), InputError) << path;
  }
}

LaunchConfig files(std::vector<EmittedFile> files) {
  LaunchConfig config;
  config.files = std::move(files);
  return config;
}

TEST(LaunchConfig, FilesAreWrittenAndTheSameTextAgainIsFine) {
  const TestFolder folder;
  const auto config = files({{folder / "a/b/plan.json", "one"}, {folder / "run.sh", "two"}});
  write_files(config, false);
  EXPECT_EQ(read_file(folder / "a/b/plan.json"), "one");
  EXPECT_NO_THROW(write_files(config, false));
  EXPECT_EQ(folder.entries(), 2) << "no temporary file is left";
}

TEST(LaunchConfig, AChangedFileIsKeptUnlessForced) {
  const TestFolder folder;
  const auto config = files({{folder / "new", "one"}, {folder / "plan.json", "two"}});
  folder.put("plan.json", "edited by hand");
  EXPECT_THROW(write_files(config, false), InputError);
  EXPECT_EQ(read_file(folder / "plan.json"), "edited by hand");
  EXPECT_FALSE(std::filesystem::exists(folder / "new")) << "all or nothing";
  write_files(config, true);
  EXPECT_EQ(read_file(folder / "plan.json"), "two");
}

std::string refusal(const std::string& path, const FilesFlag& flag = {}) {
  try {
    write_files(files({{path, "x"}}), true, flag);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(LaunchConfig, APathThatIsNoFilesIsWrongInputInTheWordsOfTheFlag) {
  const TestFolder folder;
  const std::string file = folder.put("file", "x");
  const std::string below = file + "/a/plan.json";
  EXPECT_EQ(refusal(below),
            below + ": --out = " + below + ": cannot be written: " + file + " is not a folder");
  EXPECT_EQ(
      refusal(folder.path(), {"--save-plan", ""}),
      folder.path() + ": --save-plan = " + folder.path() + ": is a folder: name a file in it");
  EXPECT_NE(refusal(folder / "none/").find("is a folder"), std::string::npos);
  EXPECT_NE(refusal("/dev/null").find("is there, and is no file"), std::string::npos);
  EXPECT_NE(refusal("").find("is no file's name"), std::string::npos);
  EXPECT_EQ(read_file(file), "x");
  if (getuid() == 0) return;  // may write anywhere
  EXPECT_NE(refusal("/plan.json").find("nothing may be made in /"), std::string::npos);
}

TEST(LaunchConfig, AFolderThatCannotBeMadeIsAWorldError) {
  if (getuid() != 0) GTEST_SKIP() << "is wrong input to who may not write there";
  EXPECT_THROW(write_files(files({{"/proc/nothing/plan.json", "x"}}), false), WorldError);
}

}  // namespace
}  // namespace planwright::launcher
