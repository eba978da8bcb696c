#include "studies/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"
#include "sample.h"
#include "studies/database.h"
#include "studies/owner.h"

namespace planwright::studies {
namespace {

using namespace testing;  // NOLINT: helpers of this folder

using Rows = std::vector<std::string>;

/// A store with one study whose capacity is `sample_problem`'s, and its path.
class StoreTest : public ::testing::Test {
 protected:
  Store open(OpenMode mode = OpenMode::create) { return Store::open(path, mode, fixed_clock()); }

  std::int64_t record(Store& store, const StudyRef& study, Outcome outcome, int step = 0) {
    const Proposal proposal = sample_proposal(step);
    const std::int64_t number = store.claim(study, proposal);
    return store.finish(study, sample_trial(study, number, proposal, std::move(outcome)));
  }

  Folder folder;
  std::string path = folder.file("study.db");
};

TEST_F(StoreTest, WritesAStudyAsOptunaKnowsIt) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  EXPECT_EQ(rows(path, "SELECT study_id, study_name FROM studies"), Rows{"1|night"});
  EXPECT_EQ(rows(path, "SELECT direction, study_id, objective FROM study_directions"),
            Rows{"MAXIMIZE|1|0"});
  EXPECT_EQ(rows(path, "SELECT \"key\", value_json FROM study_system_attributes"),
            Rows{R"(study:metric_names|["tokens/s/device"])"});
  EXPECT_EQ(rows(path,
                 "SELECT value_json FROM study_user_attributes "
                 "WHERE \"key\" IN ('planwright:problem', 'planwright:times') ORDER BY \"key\""),
            (Rows{"\"" + problem_hash(sample_problem()) + "\"", "\"UTC\""}));
  EXPECT_EQ(rows(path, "SELECT hash FROM planwright_problems"), Rows{study.problem_hash});
}

TEST_F(StoreTest, WritesAClaimedTrialAsRunning) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  EXPECT_EQ(store.claim(study, sample_proposal()), 0);
  EXPECT_EQ(rows(path,
                 "SELECT trial_id, number, study_id, state, datetime_start, "
                 "datetime_complete FROM trials"),
            Rows{std::string("1|0|1|RUNNING|") + kNowText + "|NULL"});
  EXPECT_EQ(rows(path, "SELECT trial_id, heartbeat FROM trial_heartbeats"),
            Rows{std::string("1|") + kNowText});
  EXPECT_EQ(rows(path, "SELECT count(*) FROM trial_params"), Rows{"17"});
  EXPECT_EQ(
      rows(path, "SELECT param_name, param_value FROM trial_params ORDER BY param_id LIMIT 2"),
      (Rows{"tp|1.0", "pp|1.0"}));
  EXPECT_EQ(rows(path, "SELECT count(*) FROM trial_values"), Rows{"0"});
  const auto owner = rows(
      path, "SELECT value_json FROM trial_system_attributes WHERE \"key\" = 'planwright:owner'");
  ASSERT_EQ(owner.size(), 1U);
  EXPECT_EQ(owner_from_json(Json::parse(owner[0])), this_process());
}

TEST_F(StoreTest, WritesEveryEndInItsOwnRows) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  const Bytes capacity = planwright::capacity(study.problem);
  record(store, study, measured(123.5, capacity - Bytes{10}));
  record(store, study, ran_full());
  record(store, study, failed(OutcomeKind::hung));
  record(store, study, measured(500, capacity + Bytes{7}));
  EXPECT_EQ(rows(path, "SELECT number, state, datetime_complete FROM trials"),
            (Rows{"0|COMPLETE|2025-06-15 15:06:42.750000", "1|PRUNED|2025-06-15 15:06:42.750000",
                  "2|FAIL|2025-06-15 15:06:42.750000", "3|PRUNED|2025-06-15 15:06:42.750000"}));
  EXPECT_EQ(rows(path, "SELECT trial_id, objective, value, value_type FROM trial_values"),
            Rows{"1|0|123.5|FINITE"});
  EXPECT_EQ(rows(path,
                 "SELECT trial_id, value_json FROM trial_system_attributes "
                 "WHERE \"key\" = 'constraints' ORDER BY trial_id"),
            (Rows{"1|[-10]", "2|[200]", "4|[7]"}));
  EXPECT_EQ(rows(path,
                 "SELECT value_json FROM trial_user_attributes "
                 "WHERE \"key\" = 'planwright:outcome' ORDER BY trial_id"),
            (Rows{"\"ok\"", "\"out_of_memory\"", "\"hung\"", "\"ok\""}));
}

TEST_F(StoreTest, GivesBackEveryTrialAsItWas) {
  std::vector<Trial> written;
  {
    Store store = open();
    const StudyRef study = store.open_study("night", sample_problem());
    int step = 0;
    for (const Outcome& outcome : {measured(1.0 / 3.0, Bytes{8000}), ran_full(),
                                   failed(OutcomeKind::crashed), failed(OutcomeKind::timed_out)}) {
      const Proposal proposal = sample_proposal(step++);
      const Trial trial = sample_trial(study, store.claim(study, proposal), proposal, outcome);
      EXPECT_EQ(store.finish(study, trial), trial.number);
      written.push_back(trial);
    }
    store.claim(study, sample_proposal());  // still running: not history yet
  }
  Store store = open(OpenMode::read_only);
  EXPECT_EQ(store.trials_of_problem(problem_hash(sample_problem())), written);
  EXPECT_TRUE(store.trials_of_problem("another").empty());
  EXPECT_TRUE(store.take_warnings().empty());
}

TEST_F(StoreTest, KeepsALogThatIsNotText) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  Outcome crash = failed(OutcomeKind::crashed);
  std::get<Failure>(crash.value).log_tail = "ok \xff\xfe \x01";
  record(store, study, crash);
  ASSERT_EQ(store.trials(study).size(), 1U);
  EXPECT_EQ(store.trials(study)[0].outcome.failure()->log_tail, "ok \xEF\xBF\xBD\xEF\xBF\xBD \x01");
}

TEST_F(StoreTest, ResumesAStudyAndCountsOn) {
  {
    Store store = open();
    add_trial(store, store.open_study("night", sample_problem()));
  }
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  EXPECT_EQ(study.id, 1);
  EXPECT_EQ(store.claim(study, sample_proposal()), 1);
  EXPECT_EQ(rows(path, "SELECT count(*) FROM planwright_problems"), Rows{"1"});
}

TEST_F(StoreTest, NumbersTheTrialsOfEachStudyFromZero) {
  Store store = open();
  const StudyRef first = store.open_study("first", sample_problem());
  const StudyRef second = store.open_study("second", sample_problem());
  EXPECT_EQ(add_trial(store, first), 0);
  EXPECT_EQ(add_trial(store, second), 0);
  EXPECT_EQ(add_trial(store, first), 1);
  EXPECT_EQ(store.trials(first).size(), 2U);
  EXPECT_EQ(store.trials(second).size(), 1U);
  EXPECT_EQ(store.trials_of_problem(first.problem_hash).size(), 3U);
  EXPECT_EQ(rows(path, "SELECT count(*) FROM planwright_problems"), Rows{"1"});
}

TEST_F(StoreTest, RefusesAnotherProblemAndNamesTheFieldThatDiffers) {
  Store store = open();
  store.open_study("night", sample_problem(8));
  const auto message = input_error([&] { store.open_study("night", sample_problem(64)); });
  EXPECT_EQ(message, path + ": workload.global_batch = 64: the study \"night\" was made with 8; " +
                         "give another --study for this problem");
}

TEST_F(StoreTest, RefusesNamesThatCannotBeStored) {
  Store store = open();
  EXPECT_NE(input_error([&] { store.open_study("", sample_problem()); }).find("must not be empty"),
            std::string::npos);
  EXPECT_NE(input_error([&] {
              store.open_study(std::string(513, 'x'), sample_problem());
            }).find("512 bytes"),
            std::string::npos);
  EXPECT_EQ(store.open_study("βeta ☃ 'quoted'; --", sample_problem()).name, "βeta ☃ 'quoted'; --");
}

TEST_F(StoreTest, LeavesAForeignStudyAlone) {
  Store store = open();
  run_sql(path, "INSERT INTO studies VALUES (1, 'theirs')");
  const auto message = input_error([&] { store.open_study("theirs", sample_problem()); });
  EXPECT_NE(message.find("--study = theirs: was not made by Planwright"), std::string::npos);
}

TEST_F(StoreTest, AnOutOfRangeCandidateLeavesNoRow) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  Proposal proposal = sample_proposal();
  proposal.candidate.micro_batch = 100000;
  input_error([&] { store.claim(study, proposal); });
  EXPECT_EQ(rows(path, "SELECT count(*) FROM trials"), Rows{"0"});
  EXPECT_EQ(add_trial(store, study), 0);
}

TEST_F(StoreTest, KeepsAResultWhoseRowSomebodyElseHasFinished) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  const Proposal proposal = sample_proposal();
  const std::int64_t number = store.claim(study, proposal);
  run_sql(path, "UPDATE trials SET state = 'FAIL', datetime_complete = datetime_start");
  const Trial late = sample_trial(study, number, proposal, measured(77, Bytes{8000}));
  EXPECT_EQ(store.finish(study, late), 1);
  EXPECT_EQ(rows(path, "SELECT number, state FROM trials"), (Rows{"0|FAIL", "1|COMPLETE"}));
  const auto trials = store.trials(study);
  ASSERT_EQ(trials.size(), 2U);
  EXPECT_EQ(trials[0].outcome.kind(), OutcomeKind::environment);
  EXPECT_EQ(trials[1].outcome, late.outcome);
}

TEST_F(StoreTest, SaysSoWhenItsStudyIsDeletedMeanwhile) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  const std::int64_t number = store.claim(study, sample_proposal());
  run_sql(path, "DELETE FROM trials; DELETE FROM studies; INSERT INTO studies VALUES (1, 'new')");
  const auto deleted = "the study \"night\" has been deleted";
  EXPECT_NE(world_error([&] { store.claim(study, sample_proposal()); }).find(deleted),
            std::string::npos);
  const Trial trial = sample_trial(study, number, sample_proposal(), ran_full());
  EXPECT_NE(world_error([&] { store.finish(study, trial); }).find(deleted), std::string::npos);
  EXPECT_EQ(rows(path, "SELECT count(*) FROM trials"), Rows{"0"});
}

TEST_F(StoreTest, AClockSetBackDoesNotEndATrialBeforeItBegan) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  const Proposal proposal = sample_proposal();
  Trial trial = sample_trial(study, store.claim(study, proposal), proposal, ran_full());
  trial.finished_unix_s = kNow - 3600;
  store.finish(study, trial);
  EXPECT_EQ(rows(path, "SELECT datetime_complete FROM trials"), Rows{kNowText});
}

TEST_F(StoreTest, FailsTheRowsOfOwnersThatAreGoneAndNoOthers) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  for (int i = 0; i < 6; ++i) store.claim(study, sample_proposal());
  add_trial(store, study);
  const auto change_owner = [&](int trial, const std::function<void(Owner&)>& change) {
    Owner owner = this_process();
    change(owner);
    run_sql(path,
            "UPDATE trial_system_attributes SET value_json = '" + to_json(owner).dump() +
                "' WHERE \"key\" = 'planwright:owner' AND trial_id = " + std::to_string(trial));
  };
  change_owner(2, [](Owner& o) { o.started -= 1; });        // gone
  change_owner(3, [](Owner& o) { o.host = "elsewhere"; });  // may be alive
  change_owner(4, [](Owner& o) { o.host = "elsewhere"; });  // forgotten
  run_sql(path, "UPDATE trial_heartbeats SET heartbeat = '2025-06-14 15:06:39' WHERE trial_id = 4");
  run_sql(path, "DELETE FROM trial_system_attributes WHERE trial_id = 5");  // an Optuna worker's
  run_sql(path, "UPDATE trial_system_attributes SET value_json = 'junk' WHERE trial_id = 6");
  EXPECT_EQ(store.fail_dead_owners(study), 2);
  EXPECT_EQ(
      rows(path, "SELECT number, state FROM trials"),
      (Rows{"0|RUNNING", "1|FAIL", "2|RUNNING", "3|FAIL", "4|RUNNING", "5|RUNNING", "6|COMPLETE"}));
  EXPECT_EQ(store.fail_dead_owners(study), 0);
  const auto trials = store.trials(study);
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_EQ(trials[0].number, 1);
  EXPECT_EQ(trials[0].outcome.kind(), OutcomeKind::environment);
  EXPECT_EQ(trials[0].finished_unix_s, kNow);
}

TEST_F(StoreTest, TellsATrialThatWasCutShortFromOneThatFailed) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  const std::int64_t running = store.claim(study, sample_proposal());
  const std::int64_t done = add_trial(store, study);
  record(store, study, failed(OutcomeKind::environment));
  store.abandon(study, running);
  store.abandon(study, done);
  store.abandon(study, 99);
  EXPECT_EQ(rows(path, "SELECT number, state FROM trials"),
            (Rows{"0|FAIL", "1|COMPLETE", "2|FAIL"}));
  const auto trials = store.trials(study);
  ASSERT_EQ(trials.size(), 3U);
  EXPECT_TRUE(cut_short(trials[0]));
  EXPECT_EQ(trials[0].candidate, sample_proposal().candidate);
  EXPECT_FALSE(cut_short(trials[1]));
  EXPECT_FALSE(cut_short(trials[2]));
}

TEST_F(StoreTest, ABeatRenewsTheHeartbeatOfARunningTrialOnly) {
  StoreOptions options = fixed_clock();
  double now = kNow;
  options.now = [&] { return now; };
  Store store = Store::open(path, OpenMode::create, options);
  const StudyRef study = store.open_study("night", sample_problem());
  const std::int64_t running = store.claim(study, sample_proposal());
  const std::int64_t done = add_trial(store, study);
  now += 60;
  store.beat(study, running);
  store.beat(study, done);
  EXPECT_EQ(rows(path, "SELECT heartbeat FROM trial_heartbeats ORDER BY trial_id"),
            (Rows{"2025-06-15 15:07:40.250000", kNowText}));
}

TEST_F(StoreTest, SkipsARowThatCannotBeReadAndNamesIt) {
  Store store = open();
  const StudyRef study = store.open_study("night", sample_problem());
  for (int i = 0; i < 3; ++i) add_trial(store, study);
  run_sql(path,
          "UPDATE trial_system_attributes SET value_json = '{\"number\": \"x\"}' "
          "WHERE trial_id = 1 AND \"key\" = 'planwright:trial'");
  run_sql(path,
          "UPDATE trial_system_attributes SET value_json = 'no json' "
          "WHERE trial_id = 2 AND \"key\" = 'planwright:trial'");
  const auto trials = store.trials(study);
  ASSERT_EQ(trials.size(), 1U);
  EXPECT_EQ(trials[0].number, 2);
  const auto warnings = store.take_warnings();
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find(path + ", study night, trial 0"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("trial 1: is not JSON; this trial is left out"), std::string::npos)
      << warnings[1];
  EXPECT_TRUE(store.take_warnings().empty());
}

std::string journal_versions(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(18);
  return std::to_string(file.get()) + std::to_string(file.get());
}

TEST_F(StoreTest, IsASingleFileWithARollbackJournalAtRest) {
  {
    Store first = open();
    add_trial(first, first.open_study("night", sample_problem()));
    EXPECT_EQ(journal_versions(path), "22");
    { Store second = open(); }
    EXPECT_EQ(journal_versions(path), "22") << "another connection still uses the log";
  }
  EXPECT_EQ(journal_versions(path), "11");
  const auto files = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(StoreTest, ReadsAndWritesAtTheSameTime) {
  Store writer = open();
  const StudyRef study = writer.open_study("night", sample_problem());
  add_trial(writer, study);
  Store reader = open(OpenMode::read_only);
  EXPECT_EQ(reader.trials(study).size(), 1U);
  add_trial(writer, study);
  EXPECT_EQ(reader.trials(study).size(), 2U);
}

TEST_F(StoreTest, KeepsARollbackJournalOnANetworkFileSystemAndSaysSo) {
  StoreOptions options = fixed_clock();
  options.network_file_system = [](const std::string&) { return "NFS"; };
  Store store = Store::open(path, OpenMode::create, options);
  add_trial(store, store.open_study("night", sample_problem()));
  EXPECT_EQ(journal_versions(path), "11");
  const auto warnings = store.take_warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(path + " lies on NFS, a network file system"), std::string::npos);
}

TEST_F(StoreTest, AReaderCannotWrite) {
  { Store store = open(); }
  Store reader = open(OpenMode::read_only);
  input_error([&] { reader.open_study("night", sample_problem()); });
  EXPECT_EQ(rows(path, "SELECT count(*) FROM studies"), Rows{"0"});
}

}  // namespace
}  // namespace planwright::studies
