#include <gtest/gtest.h>

#include <cmath>

#include "launcher/logs/field.h"
#include "launcher/logs/number.h"

namespace planwright::launcher {
namespace {

struct Case {
  const char* text;
  double value;
  std::size_t length;
};

void expect_read(const Case& each, bool decimal_comma) {
  const NumberInText number = number_at(each.text, decimal_comma);
  EXPECT_DOUBLE_EQ(number.value, each.value) << each.text;
  EXPECT_EQ(number.length, each.length) << each.text;
}

TEST(LogNumber, IsReadAsPeopleOfManyCountriesWriteIt) {
  const Case cases[] = {
      {"12", 12, 2},
      {"-0.5x", -0.5, 4},
      {"+3", 3, 2},
      {".25", 0.25, 3},
      {"1.0E-04|", 1e-4, 7},
      {"1.638e+04'", 16380, 9},
      {"6,789 ", 6789, 5},
      {"1,234,567.25", 1234567.25, 12},
      {"1.234.567,25", 1234567.25, 12},
      {"1.234,5", 1234.5, 7},
      {"12,5", 12.5, 4},
      {"12,50 s", 12.5, 5},
      {"0,123", 0.123, 5},
      {"1234,567", 1234.567, 8},
      {"1.234", 1.234, 5},
      {"1'234.5", 1234.5, 7},
      {"1_000_000", 1e6, 9},
      {"1\xC2\xA0"
       "234,5",
       1234.5, 8},
      {"12\xE2\x80\xAF"
       "345",
       12345, 8},
      {"10, 20", 10, 2},
      {"10. Then", 10, 2},
      {"1,2,3", 1, 1},
      {"5,loss", 5, 1},
      {"0.1", 0.1, 3},
      {"5.0000001", 5.0000001, 9},
      {"123456789012345", 123456789012345, 15},
      {"1234567890123456", 1234567890123456, 16},
      {"0.12345678901234567", 0.12345678901234567, 19},
      {"12.345678901234567", 12.345678901234567, 18},
      {"2e", 2, 1},
      {"7e+", 7, 1},
  };
  for (const Case& each : cases) expect_read(each, false);
}

TEST(LogNumber, TakesOneCommaForAFractionWhereTheFormatSaysSo) {
  const Case cases[] = {{"1,234", 1.234, 5}, {"1.234", 1234, 5}, {"1.234,5", 1234.5, 7}};
  for (const Case& each : cases) expect_read(each, true);
}

TEST(LogNumber, KnowsWhatIsNoFiniteNumber) {
  EXPECT_TRUE(std::isnan(number_at("NaN", false).value));
  EXPECT_TRUE(std::isnan(number_at("nan,", false).value));
  EXPECT_EQ(number_at("-inf ", false).value, -INFINITY);
  EXPECT_EQ(number_at("Infinity", false).length, 8U);
}

TEST(LogNumber, IsNotSeenWhereNoneIs) {
  const std::string digits(60, '9');
  for (const char* const text : {"", "-", "x", ",5", ".", "?it/s", "1e999", "e5", digits.c_str()}) {
    EXPECT_EQ(number_at(text, false).length, 0U) << text;
  }
  std::string groups = "1";
  for (int i = 0; i < 40; ++i) groups += ",000";
  EXPECT_EQ(number_at(groups, false).length, 0U);
}

TEST(LogField, UnitsStandBehindNumbersOrInNames) {
  EXPECT_EQ(unit_at("GiB(57%)", Quantity::bytes).unit, LogUnit::gib);
  EXPECT_EQ(unit_at("MB,", Quantity::bytes).unit, LogUnit::mb);
  EXPECT_EQ(unit_at("seconds", Quantity::seconds).unit, LogUnit::s);
  EXPECT_EQ(unit_at("steps", Quantity::seconds).length, 0U);
  EXPECT_EQ(unit_at("ms", Quantity::bytes).length, 0U);
  EXPECT_EQ(unit_factor(LogUnit::gb, true), unit_factor(LogUnit::gib, false));
  EXPECT_EQ(unit_factor(LogUnit::mb, false), 1e6);
  EXPECT_EQ(field_of_name("reserved_peak_mib")->unit, LogUnit::mib);
  EXPECT_EQ(field_of_name("reserved_peak_mib")->field, Field::reserved_peak);
  EXPECT_EQ(field_of_name("step_time")->field, Field::step_time);
  EXPECT_EQ(field_of_name("step")->field, Field::step);
  EXPECT_FALSE(field_of_name("step_gib"));
  EXPECT_FALSE(field_of_name("allocated_ms"));
  for (const std::string& name : field_names()) EXPECT_TRUE(field_of_name(name)) << name;
}

}  // namespace
}  // namespace planwright::launcher
