#include <benchmark/benchmark.h>

#include <vector>

#include "estimator/calibrate.h"
#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/price.h"
#include "tests/support/fake_traits.h"

/// How many candidates a second the estimator judges, on one core, for a 7B model of 32 layers.
namespace planwright::estimator {
namespace {

using testing::data_parallel;

struct Bench {
  Problem problem = testing::fake_problem(find_model("llama-2-7b", "", ""), 8, Precision::bf16);
  TargetTraits traits = testing::fake_traits(25'000'000);
  std::vector<Candidate> candidates;
  Calibration calibration;

  Bench() {
    problem.cluster = preset_cluster(find_device("A100-SXM4-80GB", "", ""), 8, 8);
    problem.workload.seq = 2048;
    problem.workload.global_batch = 512;
    for (const RecomputeKind recompute : {RecomputeKind::none, RecomputeKind::full}) {
      for (const int zero : {0, 1}) {
        for (int micro_batch = 1; micro_batch <= 64; micro_batch *= 2) {
          candidates.push_back(data_parallel(8, zero, micro_batch, recompute));
        }
      }
    }
    calibration = prior_calibration(problem, traits, std::nullopt);
  }

  const Candidate& operator[](std::size_t i) const { return candidates[i % candidates.size()]; }
};

void quantify_with_kept_rows(benchmark::State& state) {
  const Bench bench;
  QuantityTable table(bench.problem, bench.traits);
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(table.quantify(bench[i++]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(quantify_with_kept_rows);

void quantify_alone(benchmark::State& state) {
  const Bench bench;
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(quantify(bench.problem, bench.traits, bench[i++]));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(quantify_alone);

void price_figures(benchmark::State& state) {
  const Bench bench;
  const Pricer pricer(bench.problem, bench.traits, bench.calibration);
  QuantityTable table(bench.problem, bench.traits);
  std::vector<Quantities> quantities;
  for (const Candidate& candidate : bench.candidates)
    quantities.push_back(table.quantify(candidate));
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(pricer.figures(quantities[i++ % quantities.size()]));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(price_figures);

void estimate_in_full(benchmark::State& state) {
  const Bench bench;
  const Pricer pricer(bench.problem, bench.traits, bench.calibration);
  QuantityTable table(bench.problem, bench.traits);
  std::size_t i = 0;
  for (auto _ : state) {
    const Candidate& candidate = bench[i++];
    benchmark::DoNotOptimize(pricer.estimate(candidate, table.quantify(candidate)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(estimate_in_full);

void calibrate_on_thirty_trials(benchmark::State& state) {
  const Bench bench;
  const Pricer pricer(bench.problem, bench.traits, bench.calibration);
  const std::string hash = problem_hash(bench.problem);
  std::vector<Trial> trials(30);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    trials[i].number = static_cast<std::int64_t>(i);
    trials[i].problem_hash = hash;
    trials[i].candidate = bench[i];
    Measurement measured;
    measured.step_time_s =
        1.3 * pricer.figures(quantify(bench.problem, bench.traits, bench[i])).step_time.value;
    trials[i].outcome.value = measured;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(calibrate(bench.problem, bench.traits, bench.calibration, trials));
  }
}
BENCHMARK(calibrate_on_thirty_trials);

}  // namespace
}  // namespace planwright::estimator

BENCHMARK_MAIN();
