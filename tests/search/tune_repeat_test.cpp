#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "search/repeat.h"
#include "tune_arena.h"

namespace planwright::search {
namespace {

/// Of a quiet machine, and nothing measured again.
std::vector<Trial> first_probes(std::uint64_t seed) {
  SimulatedCluster quiet = cluster_of({.offset = 0.01, .noise = 0.02}, seed);
  std::vector<Trial> trials = tune_on(arena(), quiet, probes(20)).trials;
  std::erase_if(trials, [](const Trial& each) { return each.scope.steps > ProbeScope{}.steps; });
  return trials;
}

/// What is measured again behind them: `more` probes at most.
Night repeat_on(SimulatedCluster& cluster, const std::vector<Trial>& history, int more,
                const Disturbance& disturbance = {}) {
  Budget budget = probes(static_cast<int>(history.size()) + more);
  budget.chance = 1;
  return tune_on(arena(), cluster, budget, history, disturbance);
}

/// How much slower the fastest of them by measurement really is than the fastest.
double regret_among(const std::vector<Trial>& trials, const SimulatedCluster& cluster) {
  const auto truth = [&](const Trial& trial) { return cluster.true_step_time(trial.candidate); };
  const auto by_truth = [&](const Trial& a, const Trial& b) { return truth(a) < truth(b); };
  const auto by_measurement = [](const Trial& a, const Trial& b) {
    return a.outcome.measurement()->step_time_s < b.outcome.measurement()->step_time_s;
  };
  return truth(*std::min_element(trials.begin(), trials.end(), by_measurement)) /
             truth(*std::min_element(trials.begin(), trials.end(), by_truth)) -
         1;
}

/// One that gets 0.4 % faster with every step.
TEST(TuneRepeats, ContendersInTurnsRankRightOnAMachineThatDrifts) {
  std::vector<double> in_turns, one_after_another;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const std::vector<Trial> history = first_probes(seed);
    SimulatedCluster quiet = cluster_of({.offset = 0.01}, seed);
    const double step = quiet.true_step_time(history.front().candidate);
    const Simulation drifting{
        .offset = 0.01, .noise = 0.002, .drift = -0.004 / step, .start_seconds = 0};
    for (const bool apart : {false, true}) {
      SimulatedCluster cluster = cluster_of(drifting, seed);
      const Night made = repeat_on(cluster, history, kMostRepeats, {.one_after_another = apart});
      if (made.trials.size() < 2) continue;
      (apart ? one_after_another : in_turns).push_back(regret_among(made.trials, cluster));
    }
  }
  ASSERT_GT(in_turns.size(), 20u);
  EXPECT_LT(quantile(in_turns, 1.0), 0.002);
  EXPECT_GT(quantile(one_after_another, 0.5), 0.005);
}

TEST(TuneRepeats, MeasuresContendersInOneRoundAsFarAsTheBudgetGoes) {
  for (const int more : {2, 3}) {
    SimulatedCluster cluster = cluster_of({}, 1);
    const Night made = repeat_on(cluster, first_probes(1), more);
    ASSERT_FALSE(made.rounds.empty());
    EXPECT_EQ(made.rounds.front(), static_cast<std::size_t>(more));
    EXPECT_EQ(made.trials.size(), static_cast<std::size_t>(more));
    for (const Trial& trial : made.trials) {
      EXPECT_EQ(trial.outcome.measurement()->steps_s.size(),
                static_cast<std::size_t>(trial.scope.steps));
    }
  }
}

TEST(TuneRepeats, AreOfAtLeastTwo) {
  SimulatedCluster cluster = cluster_of({}, 1);
  EXPECT_TRUE(repeat_on(cluster, first_probes(1), 1).trials.empty())
      << "one alone is compared with nothing of its time";
}

TEST(TuneRepeats, WhatIsMeasuredAgainKeepsItsPlaceOnAMachineThatGrewSlower) {
  std::vector<Trial> history = first_probes(1);
  for (Trial& trial : history) {
    Measurement measured = *trial.outcome.measurement();
    measured.step_time_s *= 0.8;
    trial.outcome.value = measured;
  }
  SimulatedCluster cluster = cluster_of({.offset = 0.01}, 1);
  const Night made = repeat_on(cluster, history, 2);
  ASSERT_EQ(made.trials.size(), 2u);
  EXPECT_GT(made.plan.winner->scope.steps, ProbeScope{}.steps);
  EXPECT_GT(made.plan.runners_up.at(0).scope.steps, ProbeScope{}.steps);
  EXPECT_LT(made.plan.runners_up.at(1).outcome.measurement()->step_time_s,
            made.plan.winner->outcome.measurement()->step_time_s)
      << "when the machine was faster";
}

TEST(TuneRepeats, TheBestIsMeasuredBesideOneThatComesUpToItLater) {
  const std::vector<Trial> history = first_probes(1);
  SimulatedCluster cluster = cluster_of({}, 1);
  std::vector<Trial> repeated = history;
  const Night first = repeat_on(cluster, history, 2);
  for (const Trial& trial : first.trials) repeated.push_back(trial);
  const Night second = repeat_on(cluster, repeated, kMostRepeats);
  ASSERT_EQ(second.rounds, std::vector<std::size_t>{3}) << "those two, and the third";
  EXPECT_EQ(second.trials[0].candidate, first.plan.winner->candidate);
}

TEST(TuneRepeats, AContenderThatFailsLeavesTheOthersTheirs) {
  for (const OutcomeKind kind : {OutcomeKind::crashed, OutcomeKind::environment}) {
    SimulatedCluster cluster = cluster_of({}, 1);
    const std::vector<Trial> history = first_probes(1);
    Disturbance disturbance;
    int asked = 0;
    disturbance.instead = [&](const Proposal&) -> std::optional<Outcome> {
      if (++asked != 2) return std::nullopt;
      return Outcome{Failure{kind, "once", "", std::nullopt}, {}};
    };
    const Night made = repeat_on(cluster, history, 2 * kMostRepeats, disturbance);
    EXPECT_EQ(made.rounds, (std::vector<std::size_t>{3, 3})) << "the failed one beside the others";
    EXPECT_EQ(count(made.trials, OutcomeKind::crashed), kind == OutcomeKind::crashed ? 1 : 0);
    EXPECT_EQ(count(made.trials, OutcomeKind::ok), 5);
  }
}

TEST(TuneRepeats, OfContendersThatAreCutShortTheFinishedOnesAreTrials) {
  SimulatedCluster cluster = cluster_of({}, 1);
  Disturbance disturbance;
  disturbance.interrupted = [](std::size_t begun) { return begun > 0; };
  int asked = 0;
  disturbance.instead = [&](const Proposal&) -> std::optional<Outcome> {
    if (++asked == 1) return std::nullopt;
    return Outcome{Failure{OutcomeKind::crashed, "rank 0 was ended by SIGTERM", "", 0}, {}};
  };
  const Night made = repeat_on(cluster, first_probes(1), kMostRepeats, disturbance);
  EXPECT_EQ(made.rounds, std::vector<std::size_t>{3});
  EXPECT_EQ(made.trials.size(), 1u);
  EXPECT_EQ(made.plan.stopped, "interrupted");
}

}  // namespace
}  // namespace planwright::search
