#include "studies/history.h"

#include <gtest/gtest.h>

#include "sample.h"

namespace planwright::studies {
namespace {

using namespace testing;  // NOLINT: helpers of this folder

/// Two studies of one problem and one of another, and a foreign one.
class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest() {
    const StudyRef monday = store.open_study("monday", sample_problem());
    add_trial(store, monday, 90, 0);
    add_trial(store, monday, 120, 1);
    finish(monday, ran_full());
    const StudyRef tuesday = store.open_study("tuesday", sample_problem());
    add_trial(store, tuesday, 110, 2);
    store.claim(tuesday, sample_proposal());
    Problem larger = sample_problem(32);
    larger.model.name = "Large";
    larger.target = "other";
    add_trial(store, store.open_study("large", larger), 15, 3);
    run_sql(path, "INSERT INTO studies (study_name) VALUES ('theirs')");
  }

  void finish(const StudyRef& study, const Outcome& outcome) {
    const Proposal proposal = sample_proposal();
    store.finish(study, sample_trial(study, store.claim(study, proposal), proposal, outcome));
  }

  std::vector<std::string> names(const HistoryFilter& filter) {
    std::vector<std::string> found;
    for (const auto& each : list_studies(store, filter)) found.push_back(each.name);
    return found;
  }

  Folder folder;
  std::string path = folder.file("study.db");
  Store store = Store::open(path, OpenMode::create, fixed_clock());
};

using Names = std::vector<std::string>;

TEST_F(HistoryTest, ListsEachStudyWithItsTrialsAndBest) {
  const auto studies = list_studies(store);
  ASSERT_EQ(names({}), (Names{"large", "monday", "theirs", "tuesday"}));
  const StudySummary& monday = studies[1];
  EXPECT_EQ(monday.problem, sample_problem());
  EXPECT_EQ(monday.problem_hash, problem_hash(sample_problem()));
  EXPECT_EQ(monday.trials, (std::map<std::string, std::int64_t>{{"COMPLETE", 2}, {"PRUNED", 1}}));
  ASSERT_TRUE(monday.best);
  EXPECT_EQ(monday.best->trial.number, 1);
  EXPECT_EQ(monday.best->trial.outcome, measured(120, Bytes{8000}));
  EXPECT_EQ(monday.last_activity_unix_s, kNow + 2.5);
  const StudySummary& theirs = studies[2];
  EXPECT_EQ(theirs.problem_hash, "");
  EXPECT_FALSE(theirs.problem || theirs.best || theirs.last_activity_unix_s);
  EXPECT_EQ(studies[3].trials.at("RUNNING"), 1);
}

TEST_F(HistoryTest, FiltersByModelDeviceAndTarget) {
  const Problem problem = sample_problem();
  EXPECT_EQ(names({.model = "LARGE"}), (Names{"large"}));
  EXPECT_EQ(names({.target = "other"}), (Names{"large"}));
  EXPECT_EQ(names({.model = problem.model.name}), (Names{"monday", "tuesday"}));
  EXPECT_EQ(names({.device = problem.cluster.device.name}), (Names{"large", "monday", "tuesday"}));
  EXPECT_EQ(names({.device = std::string(word(problem.cluster.device.kind))}),
            (Names{"large", "monday", "tuesday"}));
  EXPECT_EQ(names({.study = "tuesday"}), (Names{"tuesday"}));
  EXPECT_EQ(names({.study = "theirs"}), (Names{"theirs"}));
  EXPECT_EQ(names({.model = "large", .target = problem.target}), (Names{}));
}

TEST_F(HistoryTest, GivesTheBestOfEachProblemOverItsStudiesFastestFirst) {
  const auto best = best_trials(store);
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].study, "monday");
  EXPECT_EQ(best[0].trial.number, 1);
  EXPECT_EQ(best[0].problem, sample_problem());
  EXPECT_EQ(best[0].trial.outcome, measured(120, Bytes{8000}));
  EXPECT_EQ(best[1].study, "large");
  EXPECT_EQ(best_trials(store, {.target = "other"}).size(), 1U);
}

TEST_F(HistoryTest, TheLongerMeasurementOfACandidateIsTheOneThatCounts) {
  const StudyRef monday = find_study(store, "monday");
  Proposal again = sample_proposal(1);
  again.scope.steps = 12;
  store.finish(monday,
               sample_trial(monday, store.claim(monday, again), again, measured(105, Bytes{8000})));
  EXPECT_EQ(best_trial(store, monday)->trial.outcome, measured(105, Bytes{8000}));
  EXPECT_EQ(best_trials(store)[0].study, "tuesday") << "110 beats what 120 turned out to be";
}

TEST_F(HistoryTest, ShowsATrialWithItsEstimateBesideItsMeasurement) {
  const auto shown = show_trial(store, find_study(store, "tuesday"), 0);
  EXPECT_EQ(shown.study, "tuesday");
  EXPECT_EQ(shown.trial.estimate, sample_proposal(2).estimate);
  EXPECT_EQ(shown.trial.outcome, measured(110, Bytes{8000}));
}

TEST_F(HistoryTest, SaysWhatIsThereWhenAskedForSomethingElse) {
  const StudyRef tuesday = find_study(store, "tuesday");
  struct Case {
    std::function<void()> work;
    const char* message;
  };
  for (const Case& each : {
           Case{[&] { find_study(store, "monady"); },
                "--study = monady: there is no such study; did you mean monday?"},
           Case{[&] { find_study(store, ""); },
                "the file holds several studies; name one of large, monday or tuesday"},
           Case{[&] { find_study(store, "theirs"); }, "was not made by Planwright"},
           Case{[&] { show_trial(store, tuesday, 7); },
                "trial = 7: is not there: the study \"tuesday\" has trials 0 to 1"},
           Case{[&] { show_trial(store, find_study(store, "large"), 1); }, "has trial 0 only"},
           Case{[&] { show_trial(store, store.open_study("new", sample_problem()), 0); },
                "the study \"new\" has no trials yet"},
           Case{[&] { find_study(store, "monday", sample_problem(16)); },
                "workload.global_batch = 16: the study \"monday\" was made with 8"},
           Case{[&] { show_trial(store, tuesday, 1); }, "trial = 1: is still running"},
       }) {
    const std::string message = input_error(each.work);
    EXPECT_NE(message.find(each.message), std::string::npos) << message;
    EXPECT_EQ(message.find(path), 0U) << message;
  }
  run_sql(path, "DELETE FROM trial_system_attributes WHERE trial_id = 4");
  EXPECT_NE(input_error([&] { show_trial(store, tuesday, 0); }).find("not stored by Planwright"),
            std::string::npos);
}

TEST_F(HistoryTest, FindsTheOnlyStudyWithoutAName) {
  run_sql(path, "DELETE FROM studies WHERE study_name IN ('monday', 'large')");
  EXPECT_EQ(find_study(store, "").name, "tuesday");
}

TEST_F(HistoryTest, AStudyCopiedByOptunaWithoutItsProblemIsListedAndMendedByResuming) {
  run_sql(path, "DROP TABLE planwright_problems");
  {
    Store reader = Store::open(path, OpenMode::read_only, fixed_clock());
    const auto studies = list_studies(reader);
    EXPECT_EQ(studies[1].problem_hash, problem_hash(sample_problem()));
    EXPECT_FALSE(studies[1].problem);
    EXPECT_NE(input_error([&] { find_study(reader, "monday"); }).find("its problem is not in this"),
              std::string::npos);
  }
  Store again = Store::open(path, OpenMode::create, fixed_clock());
  again.open_study("monday", sample_problem());
  EXPECT_EQ(find_study(again, "monday").problem, sample_problem());
}

}  // namespace
}  // namespace planwright::studies
