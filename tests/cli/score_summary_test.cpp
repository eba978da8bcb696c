#include "cli/score_summary.h"

#include <gtest/gtest.h>

namespace planwright::testing {
namespace {

using cli::MemoryKind;
using cli::RowOutcome;
using cli::RowScore;

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

/// A row whose peak was foreseen as `predicted` and measured as `measured`.
RowScore answered(const std::string& source, std::int64_t predicted, std::int64_t measured,
                  MemoryKind kind) {
  RowScore score;
  score.source = source;
  score.verdict = Verdict::fits;
  score.outcome = RowOutcome::ok;
  score.allocated = Bytes{predicted};
  score.reserved = Bytes{predicted + 10};
  score.device = Bytes{predicted + 20};
  score.measured = Bytes{measured};
  score.memory_kind = kind;
  return score;
}

TEST(RowScores, CompareWithTheKindThatWasMeasured) {
  EXPECT_DOUBLE_EQ(*answered("", 80, 100, MemoryKind::allocated).error(), -0.2);
  EXPECT_DOUBLE_EQ(*answered("", 80, 100, MemoryKind::reserved).error(), -0.1);
  EXPECT_DOUBLE_EQ(*answered("", 80, 50, MemoryKind::nvidia_smi).error(), 1);
  EXPECT_DOUBLE_EQ(*answered("", 80, 50, MemoryKind::unknown).error(), 1);
  RowScore unmeasured = answered("", 80, 50, MemoryKind::allocated);
  unmeasured.measured.reset();
  EXPECT_EQ(unmeasured.error(), std::nullopt);
}

TEST(RowScores, ExpectOtherKindsBesideWhatIsAllocated) {
  RowScore score = answered("", 10 * kGibibyte, 12 * kGibibyte, MemoryKind::reserved);
  EXPECT_EQ(score.device_range(), std::nullopt);
  score.least = Bytes{10 * kGibibyte};
  score.most = Bytes{20 * kGibibyte};
  const auto range = score.device_range();
  ASSERT_TRUE(range);
  EXPECT_NEAR(static_cast<double>(range->low.value), 9.7 * kGiB, 1);
  EXPECT_NEAR(static_cast<double>(range->high.value), 37.5 * kGiB, 1);
  EXPECT_EQ(score.in_range(), true);
  score.measured = Bytes{9 * kGibibyte};
  EXPECT_EQ(score.in_range(), false);
  score.memory_kind = MemoryKind::allocated;
  EXPECT_EQ(score.in_range(), std::nullopt);
  score.skipped = true;
  EXPECT_EQ(score.device_range(), std::nullopt);
}

TEST(ScoreSummary, CountsWhatIsInRangeByKind) {
  cli::ScoreSummary summary;
  for (const std::int64_t measured : {12, 13, 90}) {
    RowScore score = answered("", 10 * kGibibyte, measured * kGibibyte, MemoryKind::reserved);
    score.least = score.most = score.allocated;
    summary.add(score);
  }
  summary.add(answered("", 10, 10, MemoryKind::allocated));
  EXPECT_EQ(summary.in_range, (std::map<MemoryKind, std::int64_t>{{MemoryKind::reserved, 2}}));
}

TEST(ScoreSummary, CountsSkippedPeaksBetweenTheirReadings) {
  cli::ScoreSummary summary;
  for (const std::int64_t measured : {5, 15, 25}) {
    RowScore score = answered("", 10, measured, MemoryKind::allocated);
    score.skipped = true;
    score.least = Bytes{10};
    score.most = Bytes{20};
    summary.add(score);
  }
  EXPECT_EQ(summary.ranges, 3);
  EXPECT_EQ(summary.between, 1);
}

TEST(ScoreSummary, CountsNoVerdictWhereThereIsNone) {
  RowScore score = answered("", 10, 10, MemoryKind::allocated);
  score.verdict.reset();
  cli::ScoreSummary summary;
  summary.add(score);
  EXPECT_EQ(summary.answered, 1);
  EXPECT_EQ(summary.peaks_answered, 1);
  EXPECT_EQ(summary.ok.fits, 0);
}

TEST(ScoreSummary, TakesNearestRanks) {
  const cli::ErrorSpread spread =
      cli::spread_of({-0.1, 0.2, 0.3, -0.4, 0.5, 0.6, 0.7, 0.8, 0.9, -1.0});
  EXPECT_EQ(spread.count, 10);
  EXPECT_DOUBLE_EQ(spread.median, 0.5);
  EXPECT_DOUBLE_EQ(spread.p90, 0.9);
  EXPECT_DOUBLE_EQ(spread.largest, 1.0);
  EXPECT_EQ(cli::spread_of({}).count, 0);
  EXPECT_DOUBLE_EQ(cli::spread_of({-0.3}).p90, 0.3);
}

TEST(ScoreSummary, KnowsWhatSourcesHaveInCommon) {
  EXPECT_EQ(cli::origin_of("owner/name docs/a.md (table 2)"), "owner/name");
  EXPECT_EQ(cli::origin_of("a paper (arXiv:1), table 2"), "a paper (arXiv:1)");
  EXPECT_EQ(cli::origin_of(""), "");
}

TEST(ScoreSummary, CountsByOrigin) {
  RowScore skipped;
  skipped.source = "b/c";
  skipped.skipped = true;
  skipped.reason = "missing column: tied";
  skipped.measured = Bytes{1};
  RowScore refused;
  refused.source = "b/c";
  refused.verdict = Verdict::invalid;
  refused.outcome = RowOutcome::oom;
  const std::vector<RowScore> scores{answered("a/b", 100, 100, MemoryKind::allocated), skipped,
                                     answered("b/c x", 90, 100, MemoryKind::allocated), refused};
  const auto by_origin = cli::summarised(scores);
  ASSERT_EQ(by_origin.size(), 2u);
  const cli::ScoreSummary& first = by_origin.front();
  EXPECT_EQ(first.source, "b/c");
  EXPECT_EQ(first.rows, 3);
  EXPECT_EQ(first.answered, 2);
  EXPECT_EQ(first.skipped, 1);
  EXPECT_EQ(first.with_peak, 2);
  EXPECT_EQ(first.peaks_answered, 1);
  EXPECT_EQ(first.reasons.at("missing column: tied"), 1);
  EXPECT_EQ(first.oom.invalid, 1);
  EXPECT_EQ(cli::whole_summary(scores).ok.fits, 2);
}

}  // namespace
}  // namespace planwright::testing
