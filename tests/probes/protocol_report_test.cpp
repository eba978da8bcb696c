#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "probes/protocol/probe_report.h"
#include "tests/support/fault.h"
#include "tests/support/samples.h"

namespace planwright::probes {
namespace {

using testing::fault_of;

RankReport sample_report(int rank) {
  RankReport report;
  report.rank = rank;
  report.first_step_monotonic_s = 1234.5678;
  report.jobs.resize(2);
  report.jobs[0].measurement = testing::sample_rank(rank, false);
  report.jobs[0].losses = {8.3178, 8.25, 8.125, 8.0};
  report.jobs[1].end = RankEnd::out_of_memory;
  report.jobs[1].message = "4096 bytes for logits";
  report.jobs[1].out_of_memory = *testing::full_device_outcome().out_of_memory();
  report.rates = testing::sample_rates();
  report.environment = {{"torch", "2.11.0"}, {"threads", "1"}};
  return report;
}

TEST(ProtocolReport, ReadsBackWhatItWrote) {
  for (const RankReport& report : {sample_report(1), RankReport{}}) {
    const std::string text = to_json(report).dump();
    EXPECT_EQ(rank_report_from_json(parse_json(text, "text"), "text"), report) << text;
  }
}

TEST(ProtocolReport, WrongInputIsRefusedByItsPath) {
  const struct {
    const char* text;
    const char* key;
  } kCases[] = {
      {R"({"rnk":1})", "rnk"},
      {R"({"rank":-1})", "rank"},
      {R"({"jobs":[{"end":"okay"}]})", "jobs[0].end"},
      {R"({"jobs":[{"measurement":{"peak":{"phase":"fwd"}}}]})", "jobs[0].measurement.peak.phase"},
      {R"({"jobs":[{"measurement":{"peak":{"allocated_bytes":1}}}]})",
       "jobs[0].measurement.peak.allocated_bytes"},
      {R"({"environment":{"torch":2}})", "environment.torch"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(fault_of([&] { rank_report_from_json(Json::parse(c.text), "r.json"); }).key, c.key);
  }
}

/// The report of a rank whose only job had these measured steps.
RankReport timed(int rank, const std::vector<double>& steps_s) {
  RankReport report;
  report.rank = rank;
  report.jobs.resize(1);
  report.jobs[0].measurement.rank = rank;
  report.jobs[0].measurement.steps_s = steps_s;
  report.jobs[0].losses = {3.0, 2.0};
  return report;
}

TEST(ProtocolReport, AStepLastsAsLongAsItsSlowestRank) {
  const auto measurement = summarize({timed(0, {1.0, 5.0, 3.0}), timed(1, {2.0, 4.0, 3.5})}, 0, 70);
  EXPECT_EQ(measurement.steps_s, (std::vector<double>{2.0, 5.0, 3.5}));
  EXPECT_EQ(measurement.step_time_s, 3.5);
  EXPECT_EQ(measurement.tokens_per_second_per_device, 10.0);
  EXPECT_EQ(measurement.losses, (std::vector<double>{3.0, 2.0}));
}

TEST(ProtocolReport, AnEvenNumberOfStepsHasItsMedianBetweenTwo) {
  EXPECT_EQ(summarize({timed(0, {4.0, 1.0, 2.0, 9.0})}, 0, 3).step_time_s, 3.0);
}

TEST(ProtocolReport, RanksAreInOrderWhateverTheOrderOfTheirReports) {
  const auto measurement = summarize({timed(2, {1}), timed(0, {1}), timed(1, {1})}, 0, 3);
  ASSERT_EQ(measurement.ranks.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(measurement.ranks[static_cast<std::size_t>(rank)].rank, rank);
  }
}

TEST(ProtocolReport, TheWorstRankGivesThePeak) {
  std::vector<RankReport> reports{timed(0, {1.0}), timed(1, {1.0})};
  reports[0].jobs[0].measurement.peak[Account::logits] = Bytes{10};
  reports[1].jobs[0].measurement.peak[Account::workspace] = Bytes{30};
  reports[1].jobs[0].measurement.tensors[Account::logits] = Bytes{7};
  const Measurement measurement = summarize(reports, 0, 1);
  EXPECT_EQ(measurement.allocated_peak(), Bytes{30});
  EXPECT_EQ(measurement.tensor_peak(), Bytes{7});
}

TEST(ProtocolReport, ReportsThatDoNotFitTogetherAreAFaultOfTheWorld) {
  EXPECT_THROW(summarize({}, 0, 1), WorldError);
  EXPECT_THROW(summarize({timed(0, {})}, 0, 1), WorldError);
  EXPECT_THROW(summarize({timed(0, {1.0})}, 1, 1), WorldError);
  EXPECT_THROW(summarize({timed(0, {1.0}), timed(1, {1.0, 2.0})}, 0, 1), WorldError);
}

}  // namespace
}  // namespace planwright::probes
