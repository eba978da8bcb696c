#include "studies/best_trial.h"

#include <gtest/gtest.h>

#include "sample.h"

namespace planwright::studies {
namespace {

using namespace testing;  // NOLINT: helpers of this folder

constexpr Bytes kFits{8000};

Trial trial(std::int64_t number, int candidate, Outcome outcome, int steps = 3) {
  Proposal proposal = sample_proposal(candidate);
  proposal.scope.steps = steps;
  return sample_trial({}, number, proposal, std::move(outcome));
}

std::int64_t best_number(const std::vector<Trial>& trials) {
  const Trial* best = best_trial(sample_problem(), trials);
  return best == nullptr ? -1 : best->number;
}

TEST(BestTrial, IsTheFastestMeasured) {
  EXPECT_EQ(best_number({trial(0, 1, measured(900, kFits)), trial(1, 2, measured(1300, kFits)),
                         trial(2, 3, measured(1000, kFits))}),
            1);
}

TEST(BestTrial, CountsTheLongestMeasurementOfACandidate) {
  EXPECT_EQ(best_number({trial(0, 1, measured(1400, kFits)), trial(1, 2, measured(1300, kFits)),
                         trial(2, 1, measured(1200, kFits), 12)}),
            1)
      << "the short run of candidate 1 was a fluke";
  EXPECT_EQ(
      best_number({trial(0, 1, measured(900, kFits), 12), trial(1, 1, measured(2000, kFits))}), 0);
}

TEST(BestTrial, AMachineThatDriftsCrownsNobody) {
  EXPECT_EQ(best_number({trial(0, 1, measured(1400, kFits)), trial(1, 2, measured(1390, kFits)),
                         trial(2, 3, measured(1380, kFits)), trial(3, 1, measured(1250, kFits), 12),
                         trial(4, 2, measured(1260, kFits), 12)}),
            4)
      << "candidate 3 was measured before the machine grew slower";
}

TEST(BestTrial, CountsTheLatestOfEqualLengths) {
  EXPECT_EQ(best_number({trial(0, 1, measured(1400, kFits)), trial(1, 1, measured(1200, kFits))}),
            1);
}

TEST(BestTrial, LeavesOutWhatDidNotFitOrRun) {
  const std::vector<Trial> none{trial(1, 2, ran_full()), trial(2, 3, failed(OutcomeKind::crashed)),
                                trial(3, 4, measured(9000, capacity(sample_problem()) + Bytes{1}))};
  EXPECT_EQ(best_number(none), -1);
  std::vector<Trial> one = none;
  one.push_back(trial(0, 1, measured(900, kFits)));
  EXPECT_EQ(best_number(one), 0);
  EXPECT_EQ(best_number({}), -1);
}

TEST(BestTrial, LeavesOutACandidateThatEverRanOutOfMemory) {
  EXPECT_EQ(best_number({trial(0, 1, measured(1400, kFits)), trial(1, 1, ran_full()),
                         trial(2, 2, measured(900, kFits))}),
            2);
}

}  // namespace
}  // namespace planwright::studies
