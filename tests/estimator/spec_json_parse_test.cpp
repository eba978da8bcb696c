#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "estimator/spec/json.h"
#include "tests/support/fault.h"

namespace planwright {
namespace {

using testing::fault_of;

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(SpecJsonParse, BuildsWhatNlohmannBuilds) {
  for (const char* text :
       {"null", "true", " 17 ", "-4", "18446744073709551615", "1.5e-3", R"("a\u00e9\n\"b")", "[]",
        "{}", R"([1,[2,[]],{"b":1,"a":{"x":[null,false]}}])",
        R"({"z":1,"a":[{"z":1},{"z":2}],"":{"":""}})"}) {
    EXPECT_EQ(parse_json(text, "text").dump(), Json::parse(text).dump()) << text;
  }
}

TEST(SpecJsonParse, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"b":1,"a":2,"c":3})", "text").dump(), R"({"b":1,"a":2,"c":3})");
}

struct BadText {
  std::string text;
  const char* position;
  const char* rule;
};

const BadText kBadTexts[] = {
    {"", "line 1, column 1", "unexpected end of input"},
    {"{\"a\": 1,\n \"b\": NaN}", "line 2, column 7", "invalid literal"},
    {"{\"a\": 1,\n \"b\": Infinity}", "line 2, column 7", "invalid literal"},
    {"[1, 2", "line 1, column 5", "unexpected end of input"},
    {"{'a': 1}", "line 1, column 2", "invalid literal"},
    {"[1,\n2,\n]", "line 3, column 1", "unexpected ']'"},
    {"{} {}", "line 1, column 4", "expected end of input"},
    {"[1e999]", "line 1, column 7", "number overflow"},
    {"{\"a\":1,\n \"b\":2, \"a\":3}", "line 2, column 11", "stands twice in one object"},
    {"[{\"x\":{\"y\":1,\"y\":1}}]", "line 1, column 16", "stands twice in one object"},
    {"\"\xff\"", "line 1, column 2", "invalid string"},
};

TEST(SpecJsonParse, RefusesWhatIsNotJsonAndSaysWhere) {
  for (const BadText& bad : kBadTexts) {
    SCOPED_TRACE(bad.text);
    const InputFault fault = fault_of([&] { parse_json(bad.text, "plan.json"); });
    EXPECT_EQ(fault.file, "plan.json");
    EXPECT_EQ(fault.key, bad.position);
    EXPECT_NE(fault.rule.find(bad.rule), std::string::npos) << fault.rule;
    EXPECT_EQ(fault.rule.find("json.exception"), std::string::npos) << fault.rule;
  }
}

TEST(SpecJsonParse, RefusesANulByte) {
  const std::string text("{}\0{", 4);
  EXPECT_NE(fault_of([&] { parse_json(text, "x"); }).rule.find("NUL"), std::string::npos);
}

TEST(SpecJsonParse, EqualKeysOfDifferentObjectsAreFine) {
  EXPECT_NO_THROW(parse_json(R"({"a":{"a":{"a":[{"a":1},{"a":1}]}}})", "text"));
}

TEST(SpecJsonParse, StopsAtSixtyFourLevels) {
  EXPECT_NO_THROW(parse_json(repeated("[", 64) + repeated("]", 64), "text"));
  EXPECT_NO_THROW(parse_json("[" + repeated("[[]],", 100) + "1]", "text"));
  for (const char* open : {"[", "{\"k\":"}) {
    const auto fault = fault_of([&] { parse_json(repeated(open, 100'000), "text"); });
    EXPECT_NE(fault.rule.find("deeper than 64 levels"), std::string::npos) << fault.rule;
  }
}

TEST(SpecJsonParse, RefusesMoreThanSixtyFourMebibytesUnread) {
  const std::string text((std::size_t{64} << 20) + 1, ' ');
  const InputFault fault = fault_of([&] { parse_json(text, "big.json"); });
  EXPECT_EQ(fault.file, "big.json");
  EXPECT_NE(fault.rule.find("67108864"), std::string::npos) << fault.rule;
}

TEST(SpecJsonParse, CanonicalTextSortsKeysAtEveryLevel) {
  EXPECT_EQ(
      canonical_text(parse_json(R"({"b": {"y": 1, "x": 2.50}, "a": [ {"d":1, "c":2} ]})", "t")),
      R"({"a":[{"c":2,"d":1}],"b":{"x":2.5,"y":1}})");
}

}  // namespace
}  // namespace planwright
