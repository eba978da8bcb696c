// What a history says of the candidates, and which of them are still worth a thought.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "search/evidence.h"
#include "search/heed.h"
#include "search/propose.h"
#include "search/prune.h"
#include "search/stop.h"
#include "tests/support/decision_samples.h"

namespace planwright::search {
namespace {

using estimator::Figures;
using testing::ended;
using testing::figures;
using testing::measured;
using testing::ranking_of;
using testing::space_of;

constexpr ProbeScope kScope{};

TEST(Evidence, KnowsWhatEachCandidateWentThrough) {
  const Space space = space_of(4);
  const Evidence evidence =
      gather(space,
             {measured(space, 2, 1.5), ended(space, 0, OutcomeKind::crashed),
              ended(space, 0, OutcomeKind::hung), ended(space, 1, OutcomeKind::out_of_memory),
              measured(space, 3, 1.0)},
             kScope);
  EXPECT_EQ(evidence.measured, (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(evidence.best_time, Seconds{1.0});
  EXPECT_EQ(evidence.seen[0].failed, 2);
  EXPECT_EQ(evidence.seen[1].out_of_memory, 1);
  for (const Seen& seen : evidence.seen) EXPECT_FALSE(untried(seen));
}

TEST(Evidence, ALongerMeasurementReplacesAShorterOne) {
  const Space space = space_of(1);
  const Evidence evidence =
      gather(space, {measured(space, 0, 2.0, 12), measured(space, 0, 1.0, 3)}, kScope);
  EXPECT_EQ(evidence.best_time, Seconds{2.0});
}

TEST(Evidence, TrialsOutsideTheSpaceOrTheScopeAreNotSeen) {
  const Space space = space_of(2);
  Trial shadow = measured(space, 0, 1.0);
  shadow.scope.kind = ScopeKind::shadow;
  const Evidence evidence =
      gather(space, {shadow, measured(space, 0, 1.0, 2), measured(space_of(9), 8, 1.0)}, kScope);
  EXPECT_TRUE(evidence.measured.empty());
  EXPECT_EQ(evidence.best_time, std::nullopt);
  EXPECT_TRUE(untried(evidence.seen[0]));
}

TEST(Evidence, APlanThatEverRanOutOfMemoryIsNotMeasured) {
  const Space space = space_of(1);
  const Evidence evidence = gather(
      space, {measured(space, 0, 1.0), ended(space, 0, OutcomeKind::host_out_of_memory)}, kScope);
  EXPECT_TRUE(evidence.measured.empty());
  EXPECT_FALSE(untried(evidence.seen[0]));
}

TEST(Evidence, AFailureIsForgivenOnce) {
  const Space space = space_of(1);
  const Trial crashed = ended(space, 0, OutcomeKind::crashed);
  EXPECT_TRUE(untried(gather(space, {crashed}, kScope).seen[0]));
  EXPECT_FALSE(untried(gather(space, {crashed, crashed}, kScope).seen[0]));
}

/// Like `figures`, of a plan of this size.
Figures sized(std::int64_t bytes, double fit_probability) {
  Figures made = figures(1, 0.1, fit_probability);
  made.judged = Bytes{bytes};
  return made;
}

std::vector<double> fit_probabilities(const Ranking& ranking) {
  std::vector<double> all;
  for (const Figures& each : ranking.figures) all.push_back(each.fit_probability);
  return all;
}

TEST(Heed, RunningOutOfMemoryCastsDoubtOnWhatIsLarger) {
  const Space space = space_of(4);
  Ranking ranking = ranking_of({sized(10, 1), sized(20, 1), sized(30, 1), sized(40, 0.2)});
  const Trial ran_out = ended(space, 1, OutcomeKind::out_of_memory);
  heed_out_of_memory(ranking, gather(space, {ran_out}, kScope));
  EXPECT_EQ(fit_probabilities(ranking), (std::vector<double>{1, 0.5, 0.5, 0.1}));
}

TEST(Heed, ALargerPlanThatFittedTakesTheDoubtAway) {
  const Space space = space_of(4);
  Ranking ranking = ranking_of({sized(10, 1), sized(20, 1), sized(30, 1), sized(40, 1)});
  heed_out_of_memory(
      ranking, gather(space, {ended(space, 0, OutcomeKind::out_of_memory), measured(space, 2, 1.0)},
                      kScope));
  EXPECT_EQ(fit_probabilities(ranking), (std::vector<double>{1, 1, 1, 0.5}));
}

TEST(Heed, WhatTheModelSaidWouldNotFitIsNoSurprise) {
  const Space space = space_of(2);
  Ranking ranking = ranking_of({sized(10, 0.3), sized(20, 0.2)});
  heed_out_of_memory(ranking, gather(space, {ended(space, 0, OutcomeKind::out_of_memory)}, kScope));
  EXPECT_EQ(fit_probabilities(ranking), (std::vector<double>{0.3, 0.2}));
}

Trial predicted(Trial trial, double step_time, double time_rel) {
  trial.estimate.step_time = Seconds{step_time};
  trial.estimate.time_rel = time_rel;
  return trial;
}

TEST(Heed, PredictionsThatMissedWidenTheSpread) {
  const Space space = space_of(3);
  const auto spread_after = [&](const std::vector<Trial>& history) {
    Ranking ranking = ranking_of({figures(1, 0.1, 1)});
    heed_surprises(ranking, history);
    return ranking.figures[0].time_rel;
  };
  const Trial near = predicted(measured(space, 0, 1.0), std::exp(0.1), 0.1);   // z = -1
  const Trial wide = predicted(measured(space, 1, 1.0), std::exp(-0.3), 0.1);  // z = 3
  EXPECT_DOUBLE_EQ(spread_after({}), 0.1);
  EXPECT_DOUBLE_EQ(spread_after({near}), 0.1);
  EXPECT_DOUBLE_EQ(spread_after({near, wide}), 0.1 * std::sqrt((2.0 + 1 + 9) / (2 + 2)));
  // The second measurement of a plan says nothing: its prediction had seen the first.
  EXPECT_DOUBLE_EQ(spread_after({near, predicted(measured(space, 0, 1.0), 9.0, 0.1)}), 0.1);
  EXPECT_DOUBLE_EQ(spread_after({ended(space, 2, OutcomeKind::crashed)}), 0.1);
}

TEST(Prune, CountsEachReason) {
  const Space space = space_of(6);
  const Ranking ranking = ranking_of({figures(1.0, 0.1, 1.0),    // measured
                                      figures(1.0, 0.1, 0.009),  // hardly fits
                                      figures(1.23, 0.1, 1.0),   // 1.23 exp(-0.2) > 1
                                      figures(1.22, 0.1, 1.0),   // 1.22 exp(-0.2) < 1
                                      figures(0.5, 0.1, 1.0),    // ran out of memory
                                      figures(0.5, 0.1, 1.0)});  // failed twice
  const Trial crashed = ended(space, 5, OutcomeKind::crashed);
  const Evidence evidence = gather(
      space,
      {measured(space, 0, 1.0), ended(space, 4, OutcomeKind::out_of_memory), crashed, crashed},
      kScope);
  const Pruned pruned = prune(ranking, evidence);
  EXPECT_EQ(pruned.kept, (std::vector<std::size_t>{3}));
  const std::map<std::string, std::int64_t> expected{
      {"too_large", 1}, {"cannot_win", 1}, {"out_of_memory", 1}, {"failed", 1}};
  EXPECT_EQ(pruned.dropped, expected);
}

TEST(Prune, WithoutAMeasurementNothingIsTooSlow) {
  const Pruned pruned = prune(ranking_of({figures(1.0, 0.1, 1.0), figures(1e6, 0.1, 1.0)}),
                              gather(space_of(2), {}, kScope));
  EXPECT_EQ(pruned.kept.size(), 2u);
}

TEST(Prune, NeverDropsTheOneThatBruteForceWouldProbeNext) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> time(0.5, 2.0), spread(0.001, 0.5), fit(0.0, 1.0);
  for (int round = 0; round < 200; ++round) {
    const Space space = space_of(40);
    std::vector<Figures> each;
    each.reserve(40);
    for (int i = 0; i < 40; ++i) each.push_back(figures(time(random), spread(random), fit(random)));
    const Ranking ranking = ranking_of(each);
    const Evidence evidence = gather(space, {measured(space, 0, time(random))}, kScope);
    const Pruned pruned = prune(ranking, evidence);

    // The rule, said again without its parts.
    std::vector<std::size_t> kept;
    for (std::size_t i = 1; i < 40; ++i) {
      const bool may_win = std::log(each[i].step_time.value) - 2 * each[i].time_rel <
                           std::log(evidence.best_time->value);
      if (each[i].fit_probability >= 0.01 && may_win) kept.push_back(i);
    }
    ASSERT_EQ(pruned.kept, kept);

    Pruned everything;
    for (std::size_t i = 1; i < 40; ++i) everything.kept.push_back(i);
    const auto pick = propose(ranking, evidence, pruned, kScope, 0);
    const auto exhaustive = propose(ranking, evidence, everything, kScope, 0);
    if (outlook(ranking, evidence, everything, 0.02).largest_chance > 0.05) {
      ASSERT_TRUE(pick.has_value());
      ASSERT_EQ(pick->index, exhaustive->index);
    }
  }
}

}  // namespace
}  // namespace planwright::search
