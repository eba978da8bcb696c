#include "cli/sizes.h"

#include <gtest/gtest.h>

#include "tests/support/fault.h"

namespace planwright::cli {
namespace {

using testing::fault_of;

Setting given(const std::string& text) { return {text, "study.toml", "[cluster] memory"}; }

TEST(Sizes, AreDecimalOrBinaryAsTheirUnitSays) {
  const std::pair<const char*, std::int64_t> rows[] = {{"80GB", 80'000'000'000},
                                                       {"80GiB", 85'899'345'920},
                                                       {"512MiB", 536'870'912},
                                                       {"512MB", 512'000'000},
                                                       {"1.5GiB", 1'610'612'736},
                                                       {"4096B", 4096},
                                                       {"1KB", 1000},
                                                       {"1KiB", 1024},
                                                       {"2TB", 2'000'000'000'000},
                                                       {"1TiB", 1'099'511'627'776},
                                                       {"0.5KiB", 512}};
  for (const auto& [text, bytes] : rows) EXPECT_EQ(parse_size(given(text)), Bytes{bytes}) << text;
}

TEST(Sizes, OfOneLetterAreRefusedWithBothReadings) {
  const InputFault fault = fault_of([] { parse_size(given("80G")); });
  EXPECT_EQ(fault.file, "study.toml");
  EXPECT_EQ(fault.key, "[cluster] memory");
  EXPECT_EQ(fault.value, "80G");
  EXPECT_EQ(fault.rule,
            "is ambiguous: write 80GB (80000000000 bytes) or 80GiB (85899345920 bytes)");
}

TEST(Sizes, ThatAreWrongSayWhatIsWrong) {
  struct Row {
    const char* text;
    const char* rule;
    const char* nearest;
  };
  const Row rows[] = {
      {"80", "needs a unit", "80GiB"},       {"80gb", "unknown unit gb", "80GB"},
      {"80 GB", "unknown unit  GB", "80GB"}, {"80GiBs", "unknown unit GiBs", "80GiB"},
      {"much", "must be a size", ""},        {"-1GB", "must be a size", ""},
      {".5GB", "must be a size", ""},        {"nanGB", "must be a size", ""},
      {"infGB", "must be a size", ""},       {"0GB", "more than zero", ""},
      {"0.1B", "more than zero", ""},        {"9999999TB", "at most 2^60", ""},
      {"1e3GB", "unknown unit e3GB", ""}};
  for (const Row& row : rows) {
    const InputFault fault = fault_of([&] { parse_size(given(row.text)); });
    EXPECT_NE(fault.rule.find(row.rule), std::string::npos) << row.text << ": " << fault.rule;
    if (*row.nearest != '\0') {
      EXPECT_EQ(fault.nearest, row.nearest) << row.text;
    }
  }
}

TEST(Headroom, IsAShareOrASize) {
  EXPECT_EQ(parse_headroom(given("5%")), (Headroom{0.05, Bytes{0}}));
  EXPECT_EQ(parse_headroom(given("0%")), (Headroom{0, Bytes{0}}));
  EXPECT_EQ(parse_headroom(given("2GiB")), (Headroom{0, Bytes{2'147'483'648}}));
  for (const char* text : {"100%", "5", "5 %", "-5%", "2G", "some"}) {
    EXPECT_THROW(parse_headroom(given(text)), InputError) << text;
  }
}

TEST(Durations, AddUpTheirParts) {
  const std::pair<const char*, double> rows[] = {{"45s", 45},     {"30m", 1800}, {"2h", 7200},
                                                 {"1h30m", 5400}, {"1d", 86400}, {"0.5h", 1800}};
  for (const auto& [text, seconds] : rows) {
    EXPECT_DOUBLE_EQ(parse_duration(given(text)).value, seconds) << text;
  }
  for (const char* text : {"", "2", "2x", "h", "0s", "1h30", "-1h", "two hours"}) {
    EXPECT_THROW(parse_duration(given(text)), InputError) << text;
  }
}

TEST(Rates, AreSizesPerSecond) {
  EXPECT_DOUBLE_EQ(parse_rate(given("900GB/s")).value, 900e9);
  for (const char* text : {"900GB", "900G/s", "900GB/h", "/s", "fast"}) {
    EXPECT_THROW(parse_rate(given(text)), InputError) << text;
  }
}

TEST(Integers, AreWholeAndWithinTheirBounds) {
  EXPECT_EQ(parse_integer(given("0"), 0), 0);
  EXPECT_EQ(parse_count(given("1000000"), 1), 1'000'000);
  for (const char* text : {"", "1.0", "one", "1 ", " 1", "0x10", "99999999999999999999", "-1"}) {
    EXPECT_THROW(parse_integer(given(text), 0), InputError) << text;
  }
  EXPECT_THROW(parse_count(given("1000001"), 1), InputError);
  EXPECT_THROW(parse_count(given("0"), 1), InputError);
}

}  // namespace
}  // namespace planwright::cli
