// What is tried next, why, and when nothing is.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "search/evidence.h"
#include "search/propose.h"
#include "search/prune.h"
#include "search/repeat.h"
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

TEST(Promise, EqualsAnAverageOverManyDraws) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const auto& [time, sd] : {std::pair{0.9, 0.1}, {1.0, 0.3}, {1.3, 0.2}}) {
    double improvement = 0, wins = 0;
    constexpr int kDraws = 400000;
    for (int i = 0; i < kDraws; ++i) {
      const double gain = -(std::log(time) + sd * normal(random));
      improvement += std::max(0.0, gain) / kDraws;
      wins += (gain > std::log(1.02)) / double{kDraws};
    }
    const Promise made = promise(figures(time, sd, 0.8), Seconds{1.0}, 0.02);
    EXPECT_NEAR(made.improvement, 0.8 * improvement, 5e-4) << time;
    EXPECT_NEAR(made.chance, 0.8 * wins, 3e-3) << time;
  }
}

TEST(Promise, OfACertainTimeIsItsGain) {
  EXPECT_NEAR(promise(figures(0.9, 0, 1.0), Seconds{1.0}, 0.02).improvement, -std::log(0.9), 1e-12);
  EXPECT_EQ(promise(figures(0.9, 0, 1.0), Seconds{1.0}, 0.02).chance, 1.0);
  EXPECT_EQ(promise(figures(1.1, 0, 1.0), Seconds{1.0}, 0.02).improvement, 0.0);
  EXPECT_EQ(promise(figures(0.99, 0, 1.0), Seconds{1.0}, 0.02).chance, 0.0);
}

struct Case {
  const char* what;
  std::vector<Figures> figures;
  std::vector<std::pair<std::size_t, double>> measured;  ///< index, time
  std::vector<std::size_t> crashed;
  std::size_t pick;
  const char* why;
};

TEST(Propose, PicksAndSaysWhy) {
  const Case cases[] = {
      {"the fastest that fits comes first",
       {figures(2, 0.3, 1), figures(1, 0.3, 0.97), figures(0.5, 0.3, 0.4)},
       {},
       {},
       1,
       "predicted fastest that fits, p(fit) 0.97"},
      {"the likeliest to fit if none does",
       {figures(1, 0.3, 0.2), figures(3, 0.3, 0.4), figures(2, 0.3, 0.1)},
       {},
       {},
       1,
       "likeliest to fit, p(fit) 0.40"},
      {"a crashed one waits behind the others while nothing is measured",
       {figures(1, 0.3, 1), figures(2, 0.3, 1)},
       {},
       {0},
       1,
       "predicted fastest that fits, p(fit) 1.00"},
      {"the larger gain",
       {figures(1, 0.1, 1), figures(0.9, 0.1, 1), figures(0.95, 0.1, 1)},
       {{0, 1.0}},
       {},
       1,
       "highest expected improvement (+11.3 %, p(fit) 1.00, 2 untried)"},
      {"the less certain of two equal means",
       {figures(1, 0.1, 1), figures(1, 0.05, 1), figures(1, 0.2, 1)},
       {{0, 1.0}},
       {},
       2,
       "highest expected improvement (+8.0 %, p(fit) 1.00, 2 untried)"},
      {"a gain counts as far as it fits",
       {figures(1, 0.1, 1), figures(0.8, 0.1, 0.2), figures(0.9, 0.1, 1)},
       {{0, 1.0}},
       {},
       2,
       "highest expected improvement (+11.3 %, p(fit) 1.00, 2 untried)"},
      {"a crashed one counts half",
       {figures(1, 0.1, 1), figures(0.88, 0.1, 1), figures(0.9, 0.1, 1)},
       {{0, 1.0}},
       {1},
       2,
       "highest expected improvement (+11.3 %, p(fit) 1.00, 2 untried)"},
      {"of about the same promise the one that costs less to try: running out is soon over",
       {figures(100, 0.1, 1), figures(90, 0.1, 1), figures(60, 0.1, 0.2)},
       {{0, 100.0}},
       {},
       2,
       "highest expected improvement (+10.2 %, p(fit) 0.20, 2 untried)"},
      {"the first of equals in canonical order",
       {figures(1, 0.1, 1), figures(0.9, 0.1, 1), figures(0.9, 0.1, 1)},
       {{0, 1.0}},
       {},
       1,
       "highest expected improvement (+11.3 %, p(fit) 1.00, 2 untried)"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    const Space space = space_of(static_cast<int>(each.figures.size()));
    std::vector<Trial> history;
    for (const auto& [index, time] : each.measured) history.push_back(measured(space, index, time));
    for (const std::size_t i : each.crashed)
      history.push_back(ended(space, i, OutcomeKind::crashed));
    const Ranking ranking = ranking_of(each.figures);
    const Evidence evidence = gather(space, history, kScope);
    const auto choice = propose(ranking, evidence, prune(ranking, evidence), kScope, 0);
    ASSERT_TRUE(choice.has_value());
    EXPECT_EQ(choice->index, each.pick);
    EXPECT_EQ(choice->why, each.why);
    EXPECT_EQ(choice->scope, kScope);
  }
}

TEST(Propose, FiguresThatSayNothingAreNoReason) {
  Figures unknown = figures(1, 3, 0.6);
  unknown.memory_rel = 2.5;
  const Ranking ranking = ranking_of({unknown, unknown});
  const Evidence evidence = gather(space_of(2), {}, kScope);
  EXPECT_EQ(propose(ranking, evidence, prune(ranking, evidence), kScope, 0)->why,
            "nothing is known of the model yet");
}

TEST(Propose, NothingKeptNothingProposed) {
  EXPECT_FALSE(propose(ranking_of({}), gather({}, {}, kScope), {}, kScope, 0).has_value());
}

TEST(Propose, TheSeedOnlyTellsEqualsApart) {
  std::vector<Figures> equals(20, figures(1, 0.1, 1));
  equals.push_back(figures(0.9, 0.1, 1));
  const Ranking with_better = ranking_of(equals);
  equals.pop_back();
  const Ranking only_equals = ranking_of(equals);
  std::set<std::size_t> picks;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Evidence twenty_one = gather(space_of(21), {}, kScope);
    EXPECT_EQ(propose(with_better, twenty_one, prune(with_better, twenty_one), kScope, seed)->index,
              20u);
    const Evidence twenty = gather(space_of(20), {}, kScope);
    picks.insert(propose(only_equals, twenty, prune(only_equals, twenty), kScope, seed)->index);
  }
  EXPECT_GT(picks.size(), 10u);
}

TEST(ExpectedDuration, CountsTheStepsAsFarAsTheyAreLikelyToRun) {
  const ProbeScope scope{ScopeKind::full, 1, 3};
  const double start = expected_duration(figures(5, 0, 0.0), scope).value;
  EXPECT_GT(start, 0);
  EXPECT_DOUBLE_EQ(expected_duration(figures(5, 0, 1.0), scope).value, start + 20);
  EXPECT_DOUBLE_EQ(expected_duration(figures(5, 0, 0.5), scope).value, start + 10);
}

std::vector<std::size_t> repeats(const Space& space, const std::vector<Trial>& history,
                                 int most = kMostRepeats) {
  std::vector<std::size_t> indices;
  for (const Choice& choice :
       propose_repeats(space, gather(space, history, kScope), history, kScope, 0.02, most)) {
    EXPECT_EQ(choice.scope.steps, kScope.steps * kRepeatFactor);
    indices.push_back(choice.index);
  }
  return indices;
}

using Indices = std::vector<std::size_t>;

TEST(Repeat, MeasuresContendersTogetherForLonger) {
  const Space space = space_of(3);
  std::vector<Trial> history{measured(space, 0, 1.01), measured(space, 1, 1.0),
                             measured(space, 2, 1.2)};
  EXPECT_EQ(repeats(space, history), (Indices{1, 0})) << "the third is too far behind";
  EXPECT_EQ(repeats(space, history, 1), Indices{}) << "one alone is compared with nothing";
  constexpr int kLonger = ProbeScope{}.steps * kRepeatFactor;
  history.push_back(measured(space, 1, 1.005, kLonger));
  EXPECT_EQ(repeats(space, history), (Indices{1, 0})) << "what an earlier run left, and the best";
  EXPECT_EQ(repeats(space, history, 1), Indices{});
  history.push_back(measured(space, 0, 1.0, kLonger));
  EXPECT_EQ(repeats(space, history), Indices{});
}

TEST(Repeat, IsNotForAClearWinner) {
  const Space space = space_of(2);
  EXPECT_EQ(repeats(space, {measured(space, 0, 1.0), measured(space, 1, 1.1)}), Indices{});
}

TEST(Repeat, ScatteredStepsMakeMoreContenders) {
  const Space space = space_of(2);
  EXPECT_EQ(repeats(space, {measured(space, 0, 1.0, 3, 0.1), measured(space, 1, 1.1, 3, 0.1)}),
            (Indices{0, 1}));
}

TEST(Repeat, EndsAfterAFew) {
  const Space space = space_of(10);
  std::vector<Trial> history;
  for (std::size_t i = 0; i < 10; ++i)
    history.push_back(measured(space, i, 1.0 + 1e-4 * static_cast<double>(i)));
  EXPECT_EQ(repeats(space, history), (Indices{0, 1, 2}));
  EXPECT_EQ(repeats(space, history, 2), (Indices{0, 1})) << "as far as the budget goes";
  for (const std::size_t i : {0, 1}) {
    history.push_back(measured(space, i, 1.001, kScope.steps * kRepeatFactor));
  }
  EXPECT_EQ(repeats(space, history), (Indices{0, 1, 2})) << "with those it is compared with";
  EXPECT_EQ(repeats(space, history, 2), Indices{});
  history.push_back(measured(space, 2, 1.001, kScope.steps * kRepeatFactor));
  EXPECT_EQ(repeats(space, history), Indices{});
}

TEST(Repeat, GivesUpOnACandidateThatKeepsFailing) {
  const Space space = space_of(2);
  std::vector<Trial> history{measured(space, 0, 1.0), measured(space, 1, 1.0)};
  for (int i = 0; i < kFailuresAllowed; ++i) {
    history.push_back(ended(space, 0, OutcomeKind::crashed));
    history.push_back(ended(space, 1, OutcomeKind::timed_out));
  }
  EXPECT_EQ(repeats(space, history), Indices{});
}

TEST(Stop, WhenTheBudgetIsSpent) {
  Budget budget;
  EXPECT_EQ(budget_spent(budget, 1000, 1e9), std::nullopt);
  budget.probes = 3;
  EXPECT_EQ(budget_spent(budget, 2, 0), std::nullopt);
  EXPECT_EQ(budget_spent(budget, 3, 0), "the budget of 3 probes is spent");
  budget.seconds = 60;
  EXPECT_EQ(budget_spent(budget, 2, 59), std::nullopt);
  EXPECT_EQ(budget_spent(budget, 2, 60), "the budget of 60 s is spent");
}

TEST(Stop, SaysWhetherAnythingWasRuledOut) {
  EXPECT_EQ(nothing_to_gain({}, {}, {}),
            "nothing is left to try: every legal candidate was measured");
  EXPECT_EQ(nothing_to_gain({}, {.kept = {}, .dropped = {{"failed", 1}}}, {}),
            "nothing is left to try: every legal candidate was measured or is ruled out");
}

TEST(Stop, WhenNothingUntriedIsLikelyToWin) {
  const Space space = space_of(3);
  const Budget budget;
  const auto reason = [&](double time, double sd) {
    const Ranking ranking =
        ranking_of({figures(1, 0.1, 1), figures(time, sd, 1), figures(time + 1, sd, 1)});
    const Evidence evidence = gather(space, {measured(space, 0, 1.0)}, kScope);
    const Pruned pruned = prune(ranking, evidence);
    return nothing_to_gain(budget, pruned, outlook(ranking, evidence, pruned, budget.margin));
  };
  // P(Z > (ln 1.02 + ln 1.1) / 0.1) is 0.125, P(Z > (ln 1.02 + ln 1.05) / 0.04) is 0.043; a time of
  // 1.1 e^-0.02 is above 1 and dropped.
  EXPECT_EQ(reason(1.1, 0.10), std::nullopt);
  EXPECT_EQ(reason(1.05, 0.04), "no untried plan has more than a 5 % chance of being 2 % faster");
  EXPECT_EQ(reason(1.1, 0.01),
            "nothing is left to try: every legal candidate was measured or is ruled out");
}

TEST(Stop, NotBeforeSomethingIsMeasuredOrRuledOut) {
  const Ranking ranking = ranking_of({figures(1, 0.1, 0.02)});
  const Evidence evidence = gather(space_of(1), {}, kScope);
  const Pruned pruned = prune(ranking, evidence);
  EXPECT_EQ(nothing_to_gain({}, pruned, outlook(ranking, evidence, pruned, 0.02)), std::nullopt);
}

TEST(Outlook, IsTheLargestOfWhatIsLeft) {
  const Space space = space_of(3);
  const Ranking ranking =
      ranking_of({figures(1, 0.1, 1), figures(0.9, 0.05, 0.5), figures(1, 0.2, 1)});
  const Evidence evidence = gather(space, {measured(space, 0, 1.0)}, kScope);
  const Outlook ahead = outlook(ranking, evidence, prune(ranking, evidence), 0.02);
  EXPECT_DOUBLE_EQ(ahead.gain_left, promise(ranking.figures[2], Seconds{1.0}, 0.02).improvement);
  EXPECT_DOUBLE_EQ(ahead.largest_chance, promise(ranking.figures[1], Seconds{1.0}, 0.02).chance);
}

}  // namespace
}  // namespace planwright::search
