#include "launcher/placeholders.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace planwright::launcher {
namespace {

const NamedValues kValues{{"tp", "2"}, {"micro_batch", "8"}, {"recompute", "{tp}"}};

struct Text {
  const char* text;
  const char* filled;
  std::vector<std::string> names;
};

TEST(Placeholders, AreNamesInBracesAndNothingElse) {
  const Text texts[] = {
      {"", "", {}},
      {"--micro-batch={micro_batch}", "--micro-batch=8", {"micro_batch"}},
      {"{tp}{micro_batch}{tp}", "282", {"tp", "micro_batch"}},
      {R"({"tp": {tp}, "list": []})", R"({"tp": 2, "list": []})", {"tp"}},
      {"${HOME} {TP} {tp2} {} {tp", "${HOME} {TP} {tp2} {} {tp", {}},
      {"{zer0} {0} {a b} {micro-batch}", "{zer0} {0} {a b} {micro-batch}", {}},
      {"{{tp}} is {tp}", "{tp} is 2", {"tp"}},
      {"{{tp} {{ }} {tp}}", "{2 {{ }} 2}", {"tp"}},
      {"{recompute}", "{tp}", {"recompute"}},
  };
  for (const Text& each : texts) {
    EXPECT_EQ(filled(each.text, kValues), each.filled) << each.text;
    EXPECT_EQ(placeholders_in(each.text), each.names) << each.text;
  }
}

TEST(Placeholders, WithoutAValueAreNamed) {
  try {
    filled("{tp} {zero}", kValues);
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "zero");
  }
}

}  // namespace
}  // namespace planwright::launcher
