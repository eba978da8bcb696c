#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/measured_rows.h"
#include "cli/row_score.h"
#include "cli/row_words.h"
#include "cli/score_summary.h"

/// A sweep of one framework over layouts of two models, of which every 16th row is looked at.
/// Nothing was fitted to it.
namespace planwright::cli {
namespace {

std::vector<MeasuredRow> sample() {
  std::vector<MeasuredRow> rows =
      read_measured_rows(PLANWRIGHT_SOURCE_DIR "/tests/data/measured/pretrain.csv");
  std::erase_if(rows, [](const MeasuredRow& row) { return row.text("framework") != "nanotron"; });
  std::vector<MeasuredRow> some;
  for (std::size_t i = 0; i < rows.size(); i += 16) some.push_back(rows[i]);
  return some;
}

ScoreSummary scored(const std::vector<MeasuredRow>& rows) {
  ScoreSummary summary;
  for (const MeasuredRow& row : rows) summary.add(score_row(row, {}));
  return summary;
}

TEST(PublishedSweep, IsAnsweredToTheLastRow) {
  const ScoreSummary summary = scored(sample());
  EXPECT_GT(summary.answered, 100);
  EXPECT_EQ(summary.skipped, 0);
  EXPECT_EQ(summary.peaks_answered, summary.with_peak - summary.ok.invalid);
}

TEST(PublishedSweep, ReservesWhatWasPredicted) {
  EXPECT_LT(spread_of(scored(sample()).errors.at(MemoryKind::reserved)).median, 0.09);
  std::vector<MeasuredRow> whole = sample();
  std::erase_if(whole, [](const MeasuredRow& row) { return row.text("tp") != "1"; });
  EXPECT_LT(spread_of(scored(whole).errors.at(MemoryKind::reserved)).median, 0.065);
}

/// Rows without an outcome failed.
TEST(PublishedSweep, FitsWhereItWasJudgedTo) {
  const ScoreSummary s = scored(sample());
  const auto right = s.ok.fits + s.unsaid.too_large + s.unsaid.invalid;
  EXPECT_GT(static_cast<double>(right) / static_cast<double>(s.answered), 0.9);
}

}  // namespace
}  // namespace planwright::cli
