#include "search/rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <tuple>

#include "estimator/calibrate.h"
#include "tests/support/fake_traits.h"

namespace planwright::search {
namespace {

using testing::fake_problem;
using testing::fake_traits;

struct Situation {
  Problem problem;
  TargetTraits traits = fake_traits();
  Calibration calibration;
  Space space;
};

/// A random model on a few devices whose memory holds some of its plans.
Situation random_situation(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  Situation made;
  ModelSpec model = random() % 2 ? testing::tiny_llama() : testing::tiny_gpt();
  model.runs.front().count = pick({1, 2, 5});
  model.vocab = pick({50, 200, 1000});
  made.problem =
      fake_problem(model, pick({1, 2, 3, 4}), random() % 2 ? Precision::bf16 : Precision::fp32);
  made.problem.workload.global_batch = pick({12, 24, 48});
  made.problem.cluster.device.memory = Bytes{pick({400, 800, 1600, 3200}) * std::int64_t{1024}};
  made.calibration = estimator::prior_calibration(made.problem, made.traits, std::nullopt);
  made.space = enumerate(made.problem, made.traits, {});
  return made;
}

Ranking ranked(const Situation& situation) {
  return rank(situation.space, quantify(situation.problem, situation.traits, situation.space),
              estimator::Pricer(situation.problem, situation.traits, situation.calibration));
}

TEST(Rank, EqualsPricingAndSortingOneByOne) {
  std::mt19937_64 random(11);
  int fitting = 0, too_large = 0;
  for (int round = 0; round < 60; ++round) {
    const Situation situation = random_situation(random);
    // The slow way: every candidate through the front door, the order by repeated search.
    std::vector<std::tuple<double, std::size_t>> fits;
    std::vector<std::tuple<std::int64_t, std::size_t>> large;
    for (std::size_t i = 0; i < situation.space.legal.size(); ++i) {
      const Estimate each = estimator::estimate(situation.problem, situation.traits,
                                                situation.space.legal[i], situation.calibration);
      if (each.verdict == Verdict::fits) {
        fits.emplace_back(-each.tokens_per_second_per_device, i);
      } else {
        ASSERT_EQ(each.verdict, Verdict::too_large);
        large.emplace_back(each.peak().accounts.allocated().value, i);
      }
    }
    std::sort(large.begin(), large.end());
    const Ranking ranking = ranked(situation);
    ASSERT_EQ(ranking.fits.size(), fits.size());
    ASSERT_EQ(ranking.too_large.size(), large.size());
    for (std::size_t i = 0; i < large.size(); ++i) {
      EXPECT_EQ(ranking.too_large[i], std::get<1>(large[i]));
    }
    for (std::size_t place = 0; place < ranking.fits.size(); ++place) {
      // Rates are compared, not places: a quotient may round two different times to one rate.
      const auto best = std::min_element(fits.begin(), fits.end());
      const auto here = std::find_if(fits.begin(), fits.end(), [&](const auto& each) {
        return std::get<1>(each) == ranking.fits[place];
      });
      ASSERT_NE(here, fits.end());
      EXPECT_NEAR(std::get<0>(*here) / std::get<0>(*best), 1.0, 1e-12);
      fits.erase(here);
    }
    fitting += static_cast<int>(ranking.fits.size());
    too_large += static_cast<int>(large.size());
  }
  EXPECT_GT(fitting, 100);  // the situations are about both
  EXPECT_GT(too_large, 100);
}

TEST(Rank, EqualTimesKeepTheCanonicalOrder) {
  Situation situation;
  situation.problem = fake_problem(testing::tiny_llama(), 2, Precision::fp32);
  situation.traits.knobs = {{"paint", {"red", "green", "blue"}, "none"}};
  situation.calibration =
      estimator::prior_calibration(situation.problem, situation.traits, std::nullopt);
  SpaceRequest request;
  request.knobs["paint"] = {"blue", "green", "red"};
  request.micro_batch = {2};
  request.zero = {0};
  request.recompute = {Recompute{}};
  situation.space = enumerate(situation.problem, situation.traits, request);
  EXPECT_EQ(ranked(situation).fits, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(Rank, SameInputsSameRanking) {
  std::mt19937_64 random(5);
  const Situation situation = random_situation(random);
  const Ranking once = ranked(situation), again = ranked(situation);
  EXPECT_EQ(once.figures, again.figures);
  EXPECT_EQ(once.fits, again.fits);
  EXPECT_EQ(once.too_large, again.too_large);
  EXPECT_EQ(once.dropped, again.dropped);
}

TEST(PriceAll, GivesTheSameFiguresToAnyNumberOfThreads) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 10; ++round) {
    const Situation situation = random_situation(random);
    const estimator::Pricer pricer(situation.problem, situation.traits, situation.calibration);
    const auto quantities = quantify(situation.problem, situation.traits, situation.space);
    const Ranking kept = rank(situation.space, quantities, pricer);
    for (const unsigned threads : {0u, 1u, 3u, 100u}) {
      const Ranking made = rank(situation.space, price_all(situation.problem, situation.traits,
                                                           situation.space, pricer, threads));
      EXPECT_EQ(made.figures, kept.figures) << threads;
      EXPECT_EQ(made.fits, kept.fits) << threads;
    }
  }
}

/// Nothing is lost with a thread.
TEST(PriceAll, PassesOnWhatIsThrown) {
  std::mt19937_64 random(7);
  Situation situation = random_situation(random);
  const estimator::Pricer pricer(situation.problem, situation.traits, situation.calibration);
  for (Candidate& each : situation.space.legal) each.zero = 9;
  for (const unsigned threads : {1u, 2u}) {
    EXPECT_THROW(price_all(situation.problem, situation.traits, situation.space, pricer, threads),
                 std::logic_error);
  }
}

TEST(Rank, EveryCandidateOfTheSpaceIsAccountedFor) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const Situation situation = random_situation(random);
    const Ranking ranking = ranked(situation);
    std::int64_t sum = static_cast<std::int64_t>(ranking.fits.size());
    for (const auto& [reason, count] : ranking.dropped) sum += count;
    EXPECT_EQ(sum, situation.space.counted);
  }
}

TEST(NearestMiss, NamesAccountShortfallAndWhatIsNearest) {
  Situation situation;
  situation.problem = fake_problem(testing::tiny_llama(), 2, Precision::bf16);
  situation.problem.cluster.device.memory = Bytes{100 << 10};
  situation.calibration =
      estimator::prior_calibration(situation.problem, situation.traits, std::nullopt);
  situation.space = enumerate(situation.problem, situation.traits, {});
  const auto quantities = quantify(situation.problem, situation.traits, situation.space);
  const estimator::Pricer pricer(situation.problem, situation.traits, situation.calibration);
  const Ranking ranking = rank(situation.space, quantities, pricer);
  ASSERT_TRUE(ranking.fits.empty());
  const auto nearest = nearest_miss(situation.space, ranking, pricer);
  ASSERT_TRUE(nearest.has_value());
  EXPECT_EQ(nearest->verdict, Verdict::too_large);
  EXPECT_NE(nearest->reason.find("more than the 0.000 GiB"), std::string::npos) << nearest->reason;
  for (const estimator::Figures& each : ranking.figures) {
    EXPECT_LE(nearest->peak().accounts.allocated(), each.judged);
  }
}

TEST(NearestMiss, IsNoneWhereNothingIsTooLarge) {
  Situation situation;
  situation.problem = fake_problem(testing::tiny_llama(), 2, Precision::bf16);
  situation.calibration =
      estimator::prior_calibration(situation.problem, situation.traits, std::nullopt);
  const estimator::Pricer pricer(situation.problem, situation.traits, situation.calibration);
  EXPECT_FALSE(nearest_miss(situation.space, rank(situation.space, {}), pricer).has_value());
  situation.space = enumerate(situation.problem, situation.traits, {});
  const auto quantities = quantify(situation.problem, situation.traits, situation.space);
  EXPECT_FALSE(
      nearest_miss(situation.space, rank(situation.space, quantities, pricer), pricer).has_value());
}

Ranking with_probabilities(const std::vector<double>& fastest_first) {
  Ranking ranking;
  for (const double each : fastest_first) {
    ranking.fits.push_back(ranking.figures.size());
    ranking.figures.emplace_back().fit_probability = each;
  }
  return ranking;
}

TEST(SurerPlan, IsTheFastestSureOneOrElseTheSurest) {
  EXPECT_EQ(surer_plan(with_probabilities({})), std::nullopt);
  EXPECT_EQ(surer_plan(with_probabilities({0.95, 1})), std::nullopt) << "sure enough";
  EXPECT_EQ(surer_plan(with_probabilities({0.62, 0.7, 0.96, 1})), 2u);
  EXPECT_EQ(surer_plan(with_probabilities({0.62, 0.8, 0.7, 0.8})), 1u);
  EXPECT_EQ(surer_plan(with_probabilities({0.62, 0.5})), std::nullopt) << "none is surer";
}

}  // namespace
}  // namespace planwright::search
