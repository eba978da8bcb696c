#include "cli/best_trial.h"

#include <gtest/gtest.h>

#include "print_values.h"

namespace planwright::cli {
namespace {

using namespace planwright::testing;

Trial measured(std::int64_t number, int micro_batch, double rate, int steps = 3) {
  Trial trial = printed_trial(number, rate, mib(2));
  trial.candidate = printed_candidate(micro_batch);
  trial.scope.steps = steps;
  return trial;
}

std::int64_t best_number(const std::vector<Trial>& trials) {
  const Trial* best = best_trial(printed_cpu_problem(), trials);
  return best == nullptr ? -1 : best->number;
}

TEST(BestTrial, IsTheFastestMeasured) {
  EXPECT_EQ(best_number({measured(0, 1, 900), measured(1, 2, 1300), measured(2, 4, 1000)}), 1);
}

TEST(BestTrial, CountsTheLongestMeasurementOfACandidate) {
  EXPECT_EQ(best_number({measured(0, 1, 1400), measured(1, 2, 1300), measured(2, 1, 1200, 12)}), 1)
      << "the short run of candidate 1 was a fluke";
  EXPECT_EQ(best_number({measured(0, 1, 900, 12), measured(1, 1, 2000, 3)}), 0);
}

TEST(BestTrial, CountsTheLatestOfEqualLengths) {
  EXPECT_EQ(best_number({measured(0, 1, 1400), measured(1, 1, 1200)}), 1);
}

TEST(BestTrial, LeavesOutWhatDidNotFitOrRun) {
  Trial full = measured(1, 2, 1);
  full.outcome = printed_out_of_memory();
  Trial failed = measured(2, 4, 1);
  failed.outcome.value = Failure{};
  Trial over = printed_trial(3, 9000, mib(8));
  EXPECT_EQ(best_number({measured(0, 1, 900), full, failed, over}), 0);
  EXPECT_EQ(best_number({full, failed, over}), -1);
  EXPECT_EQ(best_number({}), -1);
}

}  // namespace
}  // namespace planwright::cli
