#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "sample.h"
#include "studies/history.h"
#include "studies/schema.h"
#include "studies/store.h"

namespace planwright::studies {
namespace {

using namespace testing;  // NOLINT: helpers of this folder

using Rows = std::vector<std::string>;
using Counts = std::map<std::string, std::int64_t>;

Store open(const std::string& path, OpenMode mode) {
  return Store::open(path, mode, fixed_clock());
}

constexpr const char* kSchema =
    "SELECT type, name, tbl_name, sql FROM sqlite_master "
    "WHERE name NOT LIKE '%planwright_%' ORDER BY type, name";

TEST(Schema, IsToTheLetterWhatOptunaMakes) {
  Folder folder;
  const std::string ours = folder.file("ours.db");
  { Store store = open(ours, OpenMode::create); }
  EXPECT_EQ(rows(ours, kSchema), rows(folder.fixture("no_study-5.0.0.db"), kSchema));
  EXPECT_EQ(rows(ours, "SELECT * FROM alembic_version"), Rows{"v3.2.0.a"});
  EXPECT_EQ(rows(ours, "SELECT * FROM version_info"), Rows{"1|12|planwright"});
  EXPECT_EQ(rows(ours, "SELECT * FROM planwright_meta"), Rows{"schema|1"});
}

TEST(Schema, IsMadeOnceHoweverOftenTheFileIsOpened) {
  Folder folder;
  const std::string path = folder.file("study.db");
  { Store store = open(path, OpenMode::create); }
  const Rows first = rows(path, "SELECT sql FROM sqlite_master");
  { Store store = open(path, OpenMode::create); }
  EXPECT_EQ(rows(path, "SELECT sql FROM sqlite_master"), first);
  EXPECT_EQ(rows(path, "SELECT count(*) FROM alembic_version"), Rows{"1"});
}

TEST(Schema, IsPutIntoAnEmptyFileAsOptunaDoes) {
  Folder folder;
  const std::string path = folder.fixture("zero.db");
  {
    Store reader = open(path, OpenMode::read_only);
    EXPECT_TRUE(list_studies(reader).empty());
    EXPECT_TRUE(reader.trials_of_problem("any").empty());
    EXPECT_NE(input_error([&] { find_study(reader, ""); }).find("holds no study yet"),
              std::string::npos);
  }
  EXPECT_EQ(std::filesystem::file_size(path), 0U) << "a reader changes nothing";
  Store store = open(path, OpenMode::read_write);
  EXPECT_EQ(add_trial(store, store.open_study("night", sample_problem())), 0);
}

TEST(Schema, IsCompletedAfterAnInterruptedCreation) {
  Folder folder;
  const std::string path = folder.fixture("no_study-5.0.0.db");
  run_sql(path, "DROP TABLE trial_values; DROP TABLE alembic_version; DELETE FROM version_info");
  {
    Store reader = open(path, OpenMode::read_only);
    EXPECT_TRUE(list_studies(reader).empty());
  }
  Store store = open(path, OpenMode::create);
  EXPECT_EQ(add_trial(store, store.open_study("night", sample_problem())), 0);
  EXPECT_EQ(rows(path, "SELECT * FROM alembic_version"), Rows{"v3.2.0.a"});
}

struct Strange {
  const char* fixture;
  const char* sql;  ///< what makes it strange
  const char* message;
};

TEST(StrangeFiles, AreRefusedWithWhatTheyAreAndWhatToDo) {
  for (const Strange& each : {
           Strange{"text.db", "", "text.db: is not an SQLite database; give another --storage"},
           Strange{"old-3.1.1.db", "",
                   "was written by an older Optuna, 3.0 or 3.1, revision v3.0.0.d; bring it up to "
                   "date with `optuna storage upgrade --storage sqlite:///"},
           Strange{"old-2.10.1.db", "", "older Optuna, 2.6 to 2.10, revision v2.6.0.a"},
           Strange{
               "no_study-5.0.0.db", "UPDATE alembic_version SET version_num = 'v6.0.0.a'",
               "was written by a newer Optuna (revision v6.0.0.a; this Planwright knows revision "
               "v3.2.0.a, schema 12); use a newer Planwright, or give another --storage"},
           Strange{"no_study-5.0.0.db", "UPDATE version_info SET schema_version = 13",
                   "newer Optuna (schema 13"},
           Strange{"no_study-5.0.0.db", "INSERT INTO alembic_version VALUES ('v2.6.0.a')",
                   "two rows in alembic_version"},
           Strange{"no_study-5.0.0.db", "ALTER TABLE trials RENAME COLUMN number TO position",
                   "looks like a study file of Optuna, but it has no column trials.number"},
           Strange{"zero.db", "CREATE TABLE orders (id INTEGER); CREATE TABLE stock (id INTEGER)",
                   "is an SQLite database, but not a study file of Optuna: it holds the tables "
                   "orders, stock; give another --storage"},
           Strange{"zero.db", "CREATE TABLE alembic_version (version_num TEXT)",
                   "it holds the table alembic_version; give another --storage"},
           Strange{"no_study-5.0.0.db",
                   "CREATE TABLE planwright_meta (key TEXT PRIMARY KEY, value TEXT);"
                   "INSERT INTO planwright_meta VALUES ('schema', '2')",
                   "was written by a newer Planwright (its side tables are version 2, this one "
                   "knows version 1)"},
       }) {
    for (const OpenMode mode : {OpenMode::create, OpenMode::read_write, OpenMode::read_only}) {
      Folder folder;
      const std::string path = folder.fixture(each.fixture);
      if (*each.sql != '\0') run_sql(path, each.sql);
      const auto size = std::filesystem::file_size(path);
      const std::string message = input_error([&] { open(path, mode); });
      EXPECT_NE(message.find(each.message), std::string::npos) << message;
      EXPECT_EQ(message.find(path), 0U) << message;
      EXPECT_EQ(std::filesystem::file_size(path), size) << each.fixture << " is left as it was";
    }
  }
}

TEST(StrangeFiles, ThatAreDamagedAreTheWorldsFault) {
  for (const char* fixture : {"truncated.db", "header_only.db"}) {
    for (const OpenMode mode : {OpenMode::create, OpenMode::read_only}) {
      Folder folder;
      const std::string path = folder.fixture(fixture);
      const std::string message = world_error([&] {
        Store store = open(path, mode);
        list_studies(store);
      });
      EXPECT_NE(message.find(path + ": the file is damaged"), std::string::npos) << message;
      EXPECT_NE(message.find(".recover"), std::string::npos) << message;
    }
  }
}

TEST(StrangeFiles, WithADamagedPageCanBeReadElsewhere) {
  Folder folder;
  const std::string path = folder.fixture("bad_page.db");
  Store store = open(path, OpenMode::read_only);
  const auto studies = list_studies(store);
  ASSERT_EQ(studies.size(), 1U);
  EXPECT_EQ(studies[0].trials.at("COMPLETE"), 10);
}

struct Foreign {
  const char* fixture;
  std::map<std::string, Counts> studies;
};

// The figures are what real Optuna says of these files.
TEST(OptunasFiles, AreListedWithTheirTrialsAndNotPlannedWith) {
  for (const Foreign& each : std::vector<Foreign>{
           {"plan-5.0.0.db", {{"llama-8b on 8 devices", {{"COMPLETE", 20}, {"PRUNED", 4}}}}},
           {"kinds-5.0.0.db",
            {{"kinds",
              {{"COMPLETE", 10}, {"PRUNED", 3}, {"FAIL", 2}, {"RUNNING", 1}, {"WAITING", 1}}}}},
           {"pair-5.0.0.db",
            {{"alpha", {{"COMPLETE", 3}}},
             {"βeta ☃ 'quoted'", {{"COMPLETE", 3}}},
             {"third", {{"COMPLETE", 2}}}}},
           {"no_study-5.0.0.db", {}},
           {"wal-5.0.0.db", {{"live", {{"COMPLETE", 5}, {"RUNNING", 1}}}}},
           {"hot_journal-5.0.0.db", {{"torn", {{"COMPLETE", 12}}}}},
           {"upgraded-5.0.0.db",
            {{"old", {{"COMPLETE", 5}, {"PRUNED", 1}, {"FAIL", 1}, {"RUNNING", 1}, {"WAITING", 1}}},
             {"old multi", {{"COMPLETE", 1}}}}},
       }) {
    for (const OpenMode mode : {OpenMode::read_only, OpenMode::read_write}) {
      Folder folder;
      Store store = open(folder.fixture(each.fixture), mode);
      std::map<std::string, Counts> found;
      for (const StudySummary& study : list_studies(store)) {
        found[study.name] = study.trials;
        EXPECT_EQ(study.problem_hash, "");
        EXPECT_FALSE(study.best);
        EXPECT_TRUE(study.last_activity_unix_s) << each.fixture << ": " << study.name;
      }
      EXPECT_EQ(found, each.studies) << each.fixture;
      EXPECT_TRUE(best_trials(store).empty());
    }
  }
}

TEST(OptunasFiles, TakeAStudyOfOursBesideTheirs) {
  Folder folder;
  const std::string path = folder.fixture("plan-5.0.0.db");
  const Rows theirs = rows(path, "SELECT * FROM trial_params WHERE trial_id <= 24");
  {
    Store store = open(path, OpenMode::create);
    const StudyRef study = store.open_study("night", sample_problem());
    EXPECT_EQ(add_trial(store, study), 0);
    EXPECT_EQ(store.trials_of_problem(study.problem_hash).size(), 1U);
  }
  EXPECT_EQ(rows(path, "SELECT trial_id FROM trials WHERE study_id = 2"), Rows{"25"});
  EXPECT_EQ(rows(path, "SELECT * FROM trial_params WHERE trial_id <= 24"), theirs);
  EXPECT_EQ(rows(path, "SELECT library_version FROM version_info"), Rows{"5.0.0"});
}

TEST(OptunasFiles, ThatWereUpgradedGetNoSecondIndex) {
  Folder folder;
  const std::string path = folder.fixture("upgraded-5.0.0.db");
  const char* indexes =
      "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'trials'";
  const Rows before = rows(path, indexes);
  { Store store = open(path, OpenMode::create); }
  EXPECT_EQ(rows(path, indexes), before);
}

TEST(OptunasFiles, WithoutHeartbeatsAreReadAndCompleted) {
  Folder folder;
  const std::string path = folder.fixture("plan-5.0.0.db");
  run_sql(path, "DROP TABLE trial_heartbeats");
  {
    Store reader = open(path, OpenMode::read_only);
    EXPECT_EQ(list_studies(reader).size(), 1U);
  }
  Store store = open(path, OpenMode::create);
  EXPECT_EQ(add_trial(store, store.open_study("night", sample_problem())), 0);
}

}  // namespace
}  // namespace planwright::studies
