#include <fmt/core.h>
#include <gtest/gtest.h>

#include "estimator/spec/error.h"
#include "launcher/logs/generic_format.h"
#include "launcher/logs/last_rows.h"
#include "launcher/logs/log_reader.h"
#include "launcher/logs/step_times.h"

namespace planwright::launcher {
namespace {

LogSummary read(const std::string& text, const std::vector<LogFormat>& formats) {
  LogReader reader(formats);
  reader.append(text);
  return reader.finish();
}

LogSummary read(const std::string& text) { return read(text, {generic_log_format()}); }

TEST(LogReader, SurvivesWhatIsNoLog) {
  const std::string nul(5, '\0');
  const std::string cases[] = {
      std::string(1 << 20, 'x') + "\n",
      std::string(1 << 20, '[') + "\n",
      std::string(1 << 20, '\x1b') + "\n",
      nul + "\xFF\xFE\xC3\x28" + nul,
      "",
      "\r\r\r\n\n",
  };
  for (const std::string& each : cases) {
    const LogSummary summary = read(each + "\nstep 7 step_time=0.5 s\n");
    ASSERT_EQ(summary.steps.size(), 1U);
    EXPECT_EQ(summary.steps[0].seconds, 0.5);
    EXPECT_EQ(summary.steps[0].step, 7);
    EXPECT_TRUE(summary.failures.empty());
  }
}

TEST(LogReader, ReadsTheBeginningOfAnEndlessLineOnly) {
  const std::string beginning = "step 7 step_time=0.5 s ";
  const LogSummary summary = read(beginning + std::string(1 << 20, 'x') + " loss=1.5\nstep 8\n");
  EXPECT_EQ(summary.steps.size(), 1U);
  EXPECT_EQ(summary.losses.seen, 0);
  EXPECT_EQ(summary.lines, 2);
}

TEST(LogReader, TakesNoFigureFromWhatAGapHasCut) {
  LogReader reader({generic_log_format()});
  reader.append(
      "step 1 step_time_ms: 812.5\nTraceback (most recent call last):\nstep 2 step_time_ms: 8");
  reader.gap();
  reader.append("2.5 tokens/s\nOdd: no exception\nstep 9 step_time_ms: 800\n");
  const LogSummary summary = reader.finish();
  ASSERT_EQ(summary.steps.size(), 2U);
  EXPECT_EQ(summary.steps[1].step, 9);
  EXPECT_TRUE(summary.rates.empty());
  EXPECT_TRUE(summary.failures.empty());
}

TEST(LogRows, AreTheLastOnes) {
  LastRows<int> rows(3);
  EXPECT_TRUE(rows.in_order().empty());
  EXPECT_EQ(rows.find(0), nullptr);
  for (int i = 0; i < 8; ++i) {
    rows.add(i);
    EXPECT_EQ(*rows.find(i), i);
    EXPECT_EQ(rows.find(i + 1), nullptr);
    EXPECT_EQ(rows.find(i - 3), nullptr);
    if (i < 2) continue;
    EXPECT_EQ(*rows.find(i - 2), i - 2);
    EXPECT_EQ(rows.in_order(), (std::vector<int>{i - 2, i - 1, i}));
  }
  EXPECT_EQ(rows.added(), 8);
}

TEST(LogReader, KeepsTheLastStepsOfALongLog) {
  constexpr int kMany = static_cast<int>(kMostLoggedSteps) + 1000;
  std::string text;
  for (int step = 1; step <= kMany; ++step)
    text += fmt::format("step {} step_time={}\n", step, step);
  const LogSummary summary = read(text);
  EXPECT_EQ(summary.steps_seen, kMany);
  ASSERT_EQ(summary.steps.size(), kMostLoggedSteps);
  EXPECT_EQ(summary.steps.front().step, 1001);
  EXPECT_EQ(summary.steps.back().step, kMany);
}

TEST(LogReader, KeepsTheFirstRanksOfALogOfTooMany) {
  std::string text;
  for (int rank = 0; rank < 20000; ++rank) {
    text += fmt::format("[rank{}]: peak memory: 1.5 GiB\n[rank{}]: ValueError: x\n", rank, rank);
  }
  const LogSummary summary = read(text);
  EXPECT_EQ(summary.memory.size(), kMostLoggedRanks);
  EXPECT_EQ(summary.failures.size(), kMostLoggedRanks);
  EXPECT_EQ(summary.memory.count(0), 1U);
}

TEST(LogReader, CountsAStepThatIsDrawnAgainOnce) {
  const LogSummary summary = read("step 1 step_time=3\nstep 2 step_time=1\rstep 2 step_time=2\r\n");
  ASSERT_EQ(summary.steps.size(), 2U);
  EXPECT_EQ(summary.steps[1].seconds, 1);
  const LogSummary surer = read("step 2: 0.25 it/s\nstep 2 step_time=1\n");
  ASSERT_EQ(surer.steps.size(), 1U);
  EXPECT_EQ(surer.steps[0].seconds, 1);
  const LogSummary weaker = read("step 2 step_time=1\nstep 2: 0.25 it/s\n");
  ASSERT_EQ(weaker.steps.size(), 1U);
  EXPECT_EQ(weaker.steps[0].seconds, 1);
}

TEST(LogReader, TakesTheFirstFigureOfALineAndTheEarlierFormat) {
  const LogFormat first{.name = "first", .lines = {"time {step_ms}"}};
  const LogFormat second{.name = "second", .lines = {"time {step_s}", "loss {loss}"}};
  const LogSummary summary = read("time 500 loss 2.5\n", {first, second});
  EXPECT_EQ(summary.steps.at(0).seconds, 0.5);
  EXPECT_EQ(summary.losses.last, 2.5);
}

TEST(LogReader, LeavesIgnoredLinesAlone) {
  const LogFormat format{.name = "f", .lines = {"step {step_s}"}, .ignored = {"eval:"}};
  EXPECT_EQ(read("eval: step 5\nstep 6\n", {format}).steps.size(), 1U);
}

TEST(LogReader, TakesARankFromTheLineIfNoneStandsBeforeIt) {
  const LogFormat format{.name = "f", .lines = {"rank={rank} step {step_s}"}};
  EXPECT_EQ(read("rank=5 step 1\n", {format}).steps.at(0).rank, 5);
  EXPECT_FALSE(read("rank=9000000000000 step 1\n", {format}).steps.at(0).rank);
}

TEST(LogReader, LooksForFiguresBehindTheRankOnly) {
  const LogFormat format{.name = "f", .lines = {"trainer {step_s}", "at {step} trainer {loss}"}};
  const LogSummary summary = read(
      "[trainer1]: trainer 5 trainer 6\n[trainer2]: x 7\n[trainer3]: at 1 trainer 2\n", {format});
  ASSERT_EQ(summary.steps.size(), 2U);
  EXPECT_EQ(summary.steps[0], (StepLine{1, {}, 5, StepSource::stated}));
  EXPECT_EQ(summary.steps[1], (StepLine{3, 1, 2, StepSource::stated}));
  EXPECT_EQ(summary.losses.last, 2);
}

TEST(LogReader, RefusesAFormatThatIsNone) {
  const std::vector<LogFormat> formats{{.name = "f", .lines = {"time {nothing}"}}};
  EXPECT_THROW(LogReader{formats}, InputError);
}

TEST(LogReader, SaysHowManyStepsWentBeforeAFailure) {
  const LogSummary summary = read("step 1 step_time=1\nstep 2 step_time=1\nValueError: at exit\n");
  EXPECT_EQ(summary.failures.at(std::nullopt).steps_before, 2);
  EXPECT_EQ(summary.failures.at(std::nullopt).at_line, 3);
}

TEST(LogStepTimes, ComeFromTheSurestEvidence) {
  const StepSize size{.tokens = 1000, .samples = 10, .devices = 2};
  LogSummary summary;
  EXPECT_FALSE(step_times(summary, size, 0));
  summary.means.samples_per_s = 5;
  EXPECT_EQ(step_times(summary, size, 0)->median(), 2);
  EXPECT_EQ(step_times(summary, size, 0)->evidence, StepEvidence::mean);
  EXPECT_FALSE(step_times(summary, {}, 0));
  summary.rates = {{{}, 1, RateKind::tokens_per_device, 100}};
  EXPECT_EQ(step_times(summary, size, 0)->median(), 5);
  summary.rates.push_back({{}, 1, RateKind::samples, 1});
  EXPECT_EQ(step_times(summary, size, 0)->median(), 10);
  summary.steps = {{{}, 1, 7, StepSource::rate}, {{}, 1, 8, StepSource::stated}};
  EXPECT_EQ(step_times(summary, size, 0)->median(), 8);
  EXPECT_EQ(step_times(summary, size, 0)->evidence, StepEvidence::stated);
}

TEST(LogStepTimes, AreTheSlowestRanksWithoutTheWarmUp) {
  LogSummary summary;
  for (int step = 1; step <= 3; ++step) {
    summary.steps.push_back({0, step, 1.0 * step, StepSource::stated});
    summary.steps.push_back({1, step, 2.0 * step, StepSource::stated});
  }
  EXPECT_EQ(step_times(summary, {}, 1)->seconds, (std::vector<double>{4, 6}));
  EXPECT_EQ(step_times(summary, {}, 9)->seconds, (std::vector<double>{6}));
  for (StepLine& each : summary.steps) each.step.reset();
  EXPECT_EQ(step_times(summary, {}, 2)->seconds, (std::vector<double>{6}));
}

}  // namespace
}  // namespace planwright::launcher
