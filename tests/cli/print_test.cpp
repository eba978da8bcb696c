#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/infeasible.h"
#include "cli/print_estimate.h"
#include "cli/print_history.h"
#include "cli/print_probe.h"
#include "cli/print_ranking.h"
#include "cli/print_table.h"
#include "cli/print_tune.h"
#include "cli/progress.h"
#include "golden.h"
#include "launcher/shell.h"
#include "print_values.h"

namespace planwright::cli {
namespace {

using namespace planwright::testing;

const Paint kPlain{false};

TEST(PrintEstimate, ShowsTheLedgerOfAnAccelerator) {
  const Estimate estimate = printed_estimate(Verdict::fits, true, whole_gib(1));
  expect_golden("estimate_device", estimate_text(printed_problem(), printed_traits(),
                                                 printed_candidate(1), estimate, kPlain));
}

TEST(PrintEstimate, ShowsMoreDigitsWhereMemoryIsSmall) {
  const Estimate estimate = printed_estimate(Verdict::too_large, false, mib(4));
  expect_golden("estimate_small", estimate_text(printed_cpu_problem(), printed_traits(),
                                                printed_candidate(1), estimate, kPlain));
}

TEST(PrintEstimate, OfAnIllegalCandidateIsItsReason) {
  const Estimate estimate = printed_estimate(Verdict::invalid, false, mib(4));
  expect_golden("estimate_invalid", estimate_text(printed_problem(), printed_traits(),
                                                  printed_candidate(1), estimate, kPlain));
}

TEST(PrintEstimate, AsJsonHasCandidateTargetAndCapacity) {
  const Estimate estimate = printed_estimate(Verdict::fits, true, whole_gib(1));
  const Json json =
      estimate_json(printed_problem(), printed_traits(), printed_candidate(2), estimate);
  EXPECT_EQ(json["verdict"], "fits");
  EXPECT_EQ(json["candidate"]["micro_batch"], 2);
  EXPECT_EQ(json["candidate"]["tp"], 1);
  EXPECT_EQ(json["target"], "builtin");
  EXPECT_EQ(json["capacity_bytes"], capacity(printed_problem()).value);
  EXPECT_EQ(json["peak"]["device_bytes"], whole_gib(53).value);
}

RankingReport printed_report() {
  RankingReport report;
  report.space.legal = {printed_candidate(1), printed_candidate(2), printed_candidate(4)};
  report.space.counted = 9;
  report.space.dropped = {{"world_size", 1}, {"zero_supported", 5}};
  report.ranking.fits = {2, 0};
  report.ranking.figures.resize(3);
  report.ranking.figures[2].step_time = Seconds{8.7705};
  report.ranking.figures[2].fit_probability = 0.62;
  report.ranking.figures[0].step_time = Seconds{8.8324};
  report.ranking.figures[0].fit_probability = 1;
  report.ranking.dropped = {{"world_size", 1}, {"zero_supported", 5}, {"too_large", 1}};
  report.top = {printed_estimate(Verdict::fits, true, whole_gib(1)),
                printed_estimate(Verdict::fits, false, whole_gib(1))};
  return report;
}

TEST(PrintRanking, IsATableWithWhatWasDropped) {
  expect_golden("ranking", ranking_text(printed_problem(), printed_report(), kPlain));
}

TEST(PrintRanking, ExplainsTheRulesIfAsked) {
  RankingReport report = printed_report();
  report.explain_dropped = true;
  report.space.examples = {
      {"world_size", {"world_size", "there are 2 devices", "use --devices 2", "here"}}};
  report.nearest_miss = "the nearest, dp 8: no room for logits";
  expect_golden("ranking_rules", ranking_text(printed_problem(), report, kPlain));
  const Json json = ranking_json(printed_problem(), printed_traits(), report);
  EXPECT_EQ(json["rules"][0]["name"], "world_size");
  EXPECT_EQ(json["rules"][0]["count"], 1);
  EXPECT_EQ(json["rules"][1]["name"], "too_large");
  EXPECT_EQ(json["rules"][1]["text"], report.nearest_miss);
  EXPECT_EQ(json["counted"], 9);
  EXPECT_EQ(json["plans"].size(), 2u);
  EXPECT_EQ(json["plans"][0]["rank"], 1);
  EXPECT_EQ(json["plans"][0]["candidate"]["micro_batch"], 4);
  EXPECT_EQ(json["surer"]["rank"], 2);
  EXPECT_EQ(json["surer"]["candidate"]["micro_batch"], 1);
  EXPECT_NEAR(json["surer"]["slower_rel"].get<double>(), 0.007, 1e-4);
}

TEST(PrintRanking, HasNoSurerPlanWhereTheFirstIsSure) {
  RankingReport report = printed_report();
  report.ranking.figures[2].fit_probability = 0.95;
  EXPECT_EQ(ranking_text(printed_problem(), report, kPlain).find("may not fit"), std::string::npos);
  EXPECT_TRUE(ranking_json(printed_problem(), printed_traits(), report)["surer"].is_null());
}

TEST(PrintProbe, ComparesPredictionAndMeasurement) {
  const Trial trial = printed_trial(3, 1301, mib(2));
  expect_golden("probe", probe_text(printed_cpu_problem(), trial.candidate, trial.scope,
                                    trial.estimate, trial.outcome, kPlain));
}

TEST(PrintProbe, SaysHowItEndedOtherwise) {
  EXPECT_EQ(outcome_text(printed_out_of_memory(), kPlain),
            "out of memory: rank 1 asked for 0.0156 GiB of logits in loss, with 0.1465 GiB of "
            "0.1562 GiB in use");
  OutOfMemory of_a_log;
  of_a_log.requested = of_a_log.capacity = mib(20);
  Outcome logged;
  logged.value = of_a_log;
  EXPECT_EQ(outcome_text(logged, kPlain),
            "out of memory: rank 0 asked for 0.0195 GiB, and its log does not say what was in use");
  Outcome crashed;
  crashed.value = Failure{OutcomeKind::crashed, "rank 1 was ended by SIGKILL", "last words", 1};
  EXPECT_EQ(outcome_text(crashed, kPlain), "crashed: rank 1 was ended by SIGKILL");
  const Trial trial = printed_trial(3, 1301, mib(2));
  const std::string text = probe_text(printed_cpu_problem(), trial.candidate, trial.scope,
                                      trial.estimate, crashed, kPlain);
  EXPECT_NE(text.find("last words"), std::string::npos);
}

TEST(PrintProbe, HasFewWordsForEachEnding) {
  for (const auto& [kind, text] : {std::pair{OutcomeKind::out_of_memory, "ran out of memory"},
                                   {OutcomeKind::host_out_of_memory, "ran out of host memory"},
                                   {OutcomeKind::timed_out, "timed out"},
                                   {OutcomeKind::environment, "failed"}}) {
    EXPECT_EQ(ending_text(kind), text);
  }
}

TuneResult printed_result() {
  TuneResult result;
  result.plan.winner = printed_trial(4, 1301, mib(2));
  result.plan.runners_up = {printed_trial(2, 1240, mib(2)), printed_trial(0, 900.5, mib(2))};
  result.plan.dropped = {{"cannot_win", 9}, {"out_of_memory", 2}};
  result.plan.counted = 24;
  result.plan.probes = 6;
  result.tried = 5;
  result.plan.seconds = 41.26;
  result.plan.gain_left = 0.012;
  result.plan.error_before = 0.35;
  result.plan.error_after = 0.04;
  result.plan.stopped = "the budget of 6 probes is spent";
  result.storage = "my studies.db";
  result.study = "8734e4f80f69";
  result.emit = {"planwright", "emit", "--storage", "my studies.db", "--out", "launch"};
  result.launch.command = {"planwright", "probe", "--plan", "launch/plan.json", "--steps", "3"};
  result.launch.environment = {{"OMP_NUM_THREADS", "2"}};
  return result;
}

TEST(PrintTune, ShowsTheAnswerWithItsEvidence) {
  expect_golden("tune_result", result_text(printed_cpu_problem(), printed_result(), kPlain));
}

TEST(PrintTune, SaysThatThereIsNone) {
  TuneResult result = printed_result();
  result.plan.winner.reset();
  result.plan.runners_up.clear();
  result.plan.error_before.reset();
  result.plan.error_after.reset();
  expect_golden("tune_nothing", result_text(printed_cpu_problem(), result, kPlain));
  EXPECT_TRUE(result_json(printed_cpu_problem(), result)["plan"].is_null());
}

TEST(PrintTune, TellsEachProbe) {
  const Trial trial = printed_trial(4, 1301, mib(2));
  const Proposal proposal{trial.candidate, trial.scope, trial.estimate, trial.why, 0.026};
  Trial full = trial;
  full.outcome = printed_out_of_memory();
  expect_golden("tune_probe", proposal_text(printed_cpu_problem(), 4, proposal, kPlain) + "\n" +
                                  finished_text(trial, false, kPlain) + "\n" +
                                  finished_text(full, false, kPlain) + "\n");
}

TEST(PrintTune, HasTheKeysThatScriptsRead) {
  const Json json = result_json(printed_cpu_problem(), printed_result());
  for (const char* key : {"schema", "event", "plan", "candidate", "measured", "runners_up",
                          "dropped", "probes", "seconds", "gain_left"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["schema"], "planwright.tune/1");
  EXPECT_EQ(json["event"], "result");
  EXPECT_EQ(json["measured"]["tokens_per_second_per_device"], 1301);
  EXPECT_EQ(json["runners_up"].size(), 2u);
  EXPECT_EQ(json["plan"]["schema"], "planwright.plan_file/1");
}

TEST(PrintHistory, ListsStudiesOfOthersWithoutAProblem) {
  studies::StudySummary ours;
  ours.name = "nightly";
  ours.problem_hash = "8734";
  ours.problem = printed_problem();
  ours.trials = {{"COMPLETE", 5}, {"PRUNED", 1}};
  ours.best = {"nightly", printed_problem(), printed_trial(4, 1301, mib(2))};
  studies::StudySummary theirs;
  theirs.name = "optuna's own";
  expect_golden("history_list", studies_text({ours, theirs}, kPlain));
  const Json rows = studies_json({ours, theirs})["rows"];
  EXPECT_EQ(rows[0]["model"], "llama-2-7b");
  EXPECT_TRUE(rows[1]["model"].is_null());
  EXPECT_EQ(rows[1]["ours"], false);
}

TEST(PrintHistory, ShowsOneTrialWithItsReason) {
  expect_golden(
      "history_show",
      trial_text({"nightly", printed_cpu_problem(), printed_trial(4, 1301, mib(2))}, kPlain));
}

TEST(PrintInfeasible, NamesTheAccountShortfallAndMemoryOfTheNearestTrial) {
  Trial far = printed_trial(0, 1, mib(2));
  far.outcome = printed_out_of_memory();
  std::get<OutOfMemory>(far.outcome.value).requested = mib(64);
  Trial near = far;
  near.number = 1;
  near.outcome = printed_out_of_memory();
  const std::string text = out_of_memory_text(printed_cpu_problem(), {far, near});
  EXPECT_NE(text.find("logits did not fit on rank 1 in loss"), std::string::npos) << text;
  EXPECT_NE(text.find("short of at least 0.0059 GiB"), std::string::npos) << text;
  EXPECT_NE(text.find("--memory 174063616B"), std::string::npos) << text;
  EXPECT_EQ(out_of_memory_text(printed_cpu_problem(), {printed_trial(0, 1, mib(2))}), "");
}

TEST(Tables, AlignAndEndWithoutBlanks) {
  EXPECT_EQ(table_text({{"a", Align::left}, {"bb", Align::right}}, {{"long", "1"}, {"x"}}, kPlain),
            "a     bb\nlong   1\nx\n");
  EXPECT_EQ(table_text({{"a", Align::left}}, {}, kPlain), "(none)\n");
}

TEST(Figures, KeepThreeDigitsAtLeast) {
  EXPECT_EQ(gib_text(whole_gib(12)), "12.00");
  EXPECT_EQ(gib_text(mib(512)), "0.5000");
  EXPECT_EQ(gib_text(mib(512), whole_gib(3)), "0.50");
  EXPECT_EQ(ms_text(Seconds{0.0123}), "12.3");
  EXPECT_EQ(ms_text(Seconds{0.00123}), "1.230");
  EXPECT_EQ(rate_text(1234.5), "1234");
  EXPECT_EQ(rate_text(0.123), "0.12");
  const std::vector<std::pair<std::string, std::int64_t>> sorted{{"b", 3}, {"a", 1}};
  EXPECT_EQ(most_first({{"a", 1}, {"b", 3}, {"c", 0}}), sorted);
}

TEST(Colours, AreForTerminalsAndAskedNotToBe) {
  EXPECT_TRUE(wants_color(ColorChoice::automatic, true, nullptr));
  EXPECT_TRUE(wants_color(ColorChoice::automatic, true, ""));
  EXPECT_FALSE(wants_color(ColorChoice::automatic, true, "1"));
  EXPECT_FALSE(wants_color(ColorChoice::automatic, false, nullptr));
  EXPECT_TRUE(wants_color(ColorChoice::always, false, "1"));
  EXPECT_FALSE(wants_color(ColorChoice::never, true, nullptr));
  EXPECT_EQ(Paint(true).good("ok"), "\x1b[32mok\x1b[0m");
  EXPECT_EQ(Paint(false).good("ok"), "ok");
}

TEST(Progress, CountsStepsFromOne) {
  EXPECT_EQ(progress_text({0, "step 1", 1.84}, 4), "step 2 of 4, 1.8 s");
  EXPECT_EQ(progress_text({0, "alive", 7}, 4), "alive, 7.0 s");
}

TEST(ShellLines, QuoteWhatAShellWouldSplit) {
  EXPECT_EQ(launcher::shell_line({"a", "b c", "it's", ""}, {{"X", "1 2"}}),
            "X='1 2' a 'b c' 'it'\\''s' ''");
}

}  // namespace
}  // namespace planwright::cli
