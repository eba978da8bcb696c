#include "estimator/csv.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace planwright::estimator {
namespace {

using Cells = std::vector<std::string>;

TEST(CsvRecords, KeepWhatStandsInQuotes) {
  const auto records = csv_records("a,\"b,c\",\"d \"\"e\"\"\"\r\nf,,\n");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].cells, (Cells{"a", "b,c", "d \"e\""}));
  EXPECT_EQ(records[1].cells, (Cells{"f", "", ""}));
}

TEST(CsvRecords, BeginInALine) {
  const auto records = csv_records("a\n\n\"b\nc\"\nd");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].line, 1u);
  EXPECT_EQ(records[1].line, 3u);
  EXPECT_EQ(records[2].line, 5u);
}

TEST(CsvRecords, SayWhenAQuoteStaysOpen) {
  EXPECT_TRUE(csv_records("a,\"b\nc").front().open_quote);
  EXPECT_FALSE(csv_records("a,\"b\"\nc").front().open_quote);
  EXPECT_TRUE(csv_records("").empty());
}

TEST(Csv, NamesTheLineOfARowThatIsTooShort) {
  try {
    Csv("a,b\n1,2\n3\n", "test.csv");
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "test.csv: line 3 has 1 cells, not 2");
  }
}

}  // namespace
}  // namespace planwright::estimator
