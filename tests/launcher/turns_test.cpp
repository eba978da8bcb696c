#include "launcher/turns.h"

#include <string_view>
#include <vector>

#include "real_worker.h"

namespace planwright::launcher {
namespace {

Measurement measured(std::vector<double> steps_s, Bytes peak, double compute_s) {
  RankMeasurement rank;
  rank.loaded[Account::parameters] = Bytes{100};
  rank.peak[Account::activations] = rank.tensors[Account::activations] = peak;
  rank.reserved_peak = peak;
  rank.steps_s = steps_s;
  rank.time = TimeSplit{};
  rank.time->compute = Seconds{compute_s};
  Measurement measurement;
  measurement.ranks = {rank};
  measurement.steps_s = steps_s;
  measurement.step_time_s = steps_s.at(steps_s.size() / 2);
  measurement.tokens_per_second_per_device = 30 / measurement.step_time_s;
  measurement.losses = {2, 1};
  return measurement;
}

TEST(Pooled, IsOneMeasurementOfAllSteps) {
  const Measurement all =
      pooled({measured({1}, Bytes{7}, 0.9), measured({4, 3, 6}, Bytes{9}, 2.5)});
  EXPECT_EQ(all.steps_s, (std::vector<double>{1, 4, 3, 6}));
  EXPECT_DOUBLE_EQ(all.step_time_s, 3.5);
  EXPECT_DOUBLE_EQ(all.tokens_per_second_per_device, 30 / 3.5);
  EXPECT_EQ(all.losses, (std::vector<double>{2, 1, 2, 1}));
  const RankMeasurement& rank = all.ranks.at(0);
  EXPECT_EQ(rank.steps_s, all.steps_s);
  EXPECT_EQ(rank.allocated_peak(), Bytes{9});
  EXPECT_EQ(rank.tensor_peak(), Bytes{9});
  EXPECT_EQ(rank.reserved_peak, Bytes{9});
  EXPECT_EQ(rank.rss_peak, std::nullopt) << "not known, not 0";
  EXPECT_EQ(rank.loaded.allocated(), Bytes{100});
  EXPECT_DOUBLE_EQ(rank.time->compute.value, (0.9 + 3 * 2.5) / 4) << "the mean of the steps";
}

std::vector<std::string_view> kinds(const std::vector<Outcome>& outcomes) {
  std::vector<std::string_view> words;
  for (const Outcome& outcome : outcomes) words.push_back(word(outcome.kind()));
  return words;
}

using Kinds = std::vector<std::string_view>;

class TurnsProcess : public ReuseProcess {
 protected:
  static probes::TrainJob job(int steps, int micro_batch) {
    probes::TrainJob job = RealWorkerProcess::job(steps);
    job.candidate.micro_batch = micro_batch;
    return job;
  }
};

TEST_F(TurnsProcess, MeasureTheMemoryOfFreshProcesses) {
  const std::vector<probes::TrainJob> jobs{job(4, 1), job(4, 2), job(3, 4)};
  const std::vector<Outcome> outcomes = run_in_turns(jobs, 3, options_);
  ASSERT_EQ(kinds(outcomes), (Kinds{"ok", "ok", "ok"}));
  EXPECT_EQ(sets(), 1u);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Measurement& together = *outcomes[i].measurement();
    EXPECT_EQ(std::ssize(together.steps_s), jobs[i].scope.steps);
    EXPECT_EQ(std::ssize(together.losses), jobs[i].scope.steps + 3) << "a warm-up step each round";
    const Outcome alone = run_probe(jobs[i], options_);
    ASSERT_TRUE(alone.measurement()) << why(alone);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const RankMeasurement& one = together.ranks[rank];
      const RankMeasurement& other = alone.measurement()->ranks[rank];
      EXPECT_EQ(one.loaded, other.loaded) << i;
      EXPECT_EQ(one.step_end, other.step_end) << i;
      EXPECT_EQ(one.peak, other.peak) << i;
      EXPECT_EQ(one.tensors, other.tensors) << i;
    }
  }
}

TEST_F(TurnsProcess, OneThatRunsOutOfMemoryHasNoFurtherTurn) {
  probes::TrainJob tight = job(2, 4);
  tight.memory_budget = Bytes{1000};
  const std::vector<Outcome> outcomes = run_in_turns({job(2, 1), tight, job(2, 2)}, 2, options_);
  EXPECT_EQ(kinds(outcomes), (Kinds{"ok", "out_of_memory", "ok"}));
  EXPECT_EQ(outcomes[0].measurement()->steps_s.size(), 2u);
  EXPECT_EQ(outcomes[2].measurement()->steps_s.size(), 2u);
  EXPECT_EQ(sets(), 2u) << "and fresh processes for the others";
}

TEST_F(TurnsProcess, OneThatIsKilledLeavesTheOthersWhatTheyMeasured) {
  signal_in_endless_job(SIGKILL);
  const std::vector<Outcome> outcomes =
      run_in_turns({job(2, 1), job(2000000, 2), job(2, 4)}, 2, options_);
  ASSERT_EQ(kinds(outcomes), (Kinds{"ok", "crashed", "ok"}));
  EXPECT_EQ(outcomes[1].failure()->rank, 1);
  EXPECT_EQ(outcomes[0].measurement()->steps_s.size(), 2u);
  EXPECT_EQ(outcomes[2].measurement()->steps_s.size(), 2u);
  EXPECT_EQ(sets(), 2u);
}

TEST_F(TurnsProcess, AnInterruptionEndsAllOfThem) {
  bool asked = false;
  options_.progress = [&](const ProgressEvent& event) { asked |= event.text == "step 100"; };
  options_.interrupted = [&] { return asked; };
  EXPECT_THROW(run_in_turns({job(2, 1), job(2000000, 2)}, 2, options_), Interrupted);
}

}  // namespace
}  // namespace planwright::launcher
