#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "estimator/quantities.h"
#include "estimator/spec/rank_grid.h"
#include "estimator/stage_script.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/built_programs.h"
#include "tests/support/layouts.h"

namespace planwright::testing {
namespace {

using estimator::Instant;
using probes::MemoryEvent;

/// Few enough micro-batches that the script shows each of them.
Problem short_problem(LayoutModel model, const Candidate& candidate, Precision precision) {
  Problem problem = layout_problem(model, candidate, precision);
  problem.workload.global_batch = 2LL * candidate.dp * candidate.micro_batch;
  return problem;
}

std::vector<Instant> predicted(const Problem& problem, const Candidate& candidate, int rank) {
  const TargetTraits& traits = targets::builtin::traits();
  const ModelPart part = model_part(problem.model, candidate, rank);
  const FlatLayout layout =
      flat_layout(problem.model, candidate, rank, traits.bucket_elements(candidate));
  const FlatLayout frozen = frozen_layout(problem.model, candidate, rank);
  return estimator::stage_timeline(estimator::stage_step(
      {problem, traits, candidate}, place_of(candidate, rank).pp, part, layout, frozen));
}

std::string line(const std::optional<Instant>& instant) {
  if (!instant) return fmt::format("{:52}", "-");
  return fmt::format("{:10}{:12}{:13}{:8}{:9}", instant->name, word(instant->phase),
                     word(instant->account), instant->bytes, instant->tensors);
}

std::string line(const std::optional<MemoryEvent>& event, Bytes loaded) {
  if (!event) return "-";
  return fmt::format("{:12}{:13}{:8}{:9}", word(event->phase), word(event->account),
                     event->bytes.value, (event->tensors - loaded).value);
}

bool agree(const Instant& instant, const MemoryEvent& event, Bytes loaded) {
  return instant.phase == event.phase && instant.account == event.account &&
         instant.bytes == event.bytes.value && instant.tensors == (event.tensors - loaded).value;
}

/// Both timelines side by side around the first place where they part; empty if they do not.
std::string parting(const std::vector<Instant>& script, const std::vector<MemoryEvent>& measured,
                    Bytes loaded) {
  const std::size_t longest = std::max(script.size(), measured.size());
  std::size_t first = 0;
  while (first < std::min(script.size(), measured.size()) &&
         agree(script[first], measured[first], loaded)) {
    ++first;
  }
  if (first == longest) return "";
  std::string text = fmt::format("they part at {} of {} predicted and {} measured\n", first,
                                 script.size(), measured.size());
  for (std::size_t i = first < 4 ? 0 : first - 4; i < std::min(first + 4, longest); ++i) {
    text +=
        fmt::format("{} {} | {}\n", i == first ? ">" : " ",
                    line(i < script.size() ? std::optional(script[i]) : std::nullopt),
                    line(i < measured.size() ? std::optional(measured[i]) : std::nullopt, loaded));
  }
  return text;
}

std::vector<Candidate> timelines() {
  Recompute chunks{RecomputeKind::chunk, 2, {}};
  return {
      {},
      {.tp = 2, .sp = true},
      {.dp = 2, .zero = 2},
      {.dp = 2, .zero = 3},
      {.pp = 2},
      {.tp = 2, .pp = 2, .schedule = Schedule::gpipe},
      {.dp = 2, .zero = 3, .recompute = chunks},
  };
}

class TimelineProcess : public ::testing::TestWithParam<Precision> {};

/// Every allocation of a step in its order, with what is alive beside it: not the peak alone.
TEST_P(TimelineProcess, OfEstimateAndWorkerAreOne) {
  for (const LayoutModel model : {LayoutModel::gpt_tied, LayoutModel::llama}) {
    for (const Candidate& candidate : timelines()) {
      const Problem problem = short_problem(model, candidate, GetParam());
      auto job = launcher::make_train_job(problem, candidate, {.warmup = 1, .steps = 1},
                                          targets::builtin::traits(), 0);
      job.timeline = true;
      const auto ran = launcher::run_jobs({job}, built_programs(PLANWRIGHT_BIN_DIR));
      ASSERT_FALSE(ran.failure.has_value()) << describe(candidate);
      for (const probes::RankReport& report : ran.reports) {
        const probes::RankJobReport& measured = report.jobs.front();
        const Bytes loaded = measured.measurement.loaded.tensors();
        EXPECT_EQ(parting(predicted(problem, candidate, report.rank), measured.timeline, loaded),
                  "")
            << layout_model(model).name << ", " << describe(candidate) << ", rank " << report.rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InEachPrecision, TimelineProcess,
                         ::testing::Values(Precision::fp32, Precision::bf16));

}  // namespace
}  // namespace planwright::testing
