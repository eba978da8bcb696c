#include "launcher/observer_report.h"

#include <gtest/gtest.h>

namespace planwright::launcher {
namespace {

/// What a script wrote for a terminal stands in a message, of one line.
TEST(ObserverReport, TellsAnErrorAsOneLineWithoutEscapes) {
  const ObservedProcess process = observed_process(
      R"({"schema":"planwright.observer/1","kind":"end","rank":1,"reason":"error","error":"ValueError: \u001b[31mno\u001b[0m\nsuch )"
      R"(\u0007width"})"
      "\n");
  EXPECT_EQ(process.end, "error");
  EXPECT_EQ(process.error, "ValueError: no such \xEF\xBF\xBDwidth");
}

}  // namespace
}  // namespace planwright::launcher
