#include <gtest/gtest.h>

#include <ostream>

#include "tests/support/fault_run.h"

namespace planwright::testing {

void PrintTo(const FaultRow& row, std::ostream* out) { *out << row.fault << ", " << row.where; }

namespace {

/// Nothing that happens to a probe is taken for something else, leaves anything behind, or harms
/// the next one: tests/support/fault_rows.cpp. How soon it is gone is the bench's to say.
class FaultProcess : public ::testing::TestWithParam<FaultRow> {};

TEST_P(FaultProcess, IsNamedLeavesNothingAndHarmsNoOther) {
  const FaultResult result = run_fault(GetParam(), PLANWRIGHT_BIN_DIR);
  if (!result.skipped.empty()) GTEST_SKIP() << result.skipped;
  for (const std::string& each : result.wrong) {
    ADD_FAILURE() << each << "\nexpected " << expected_text(GetParam()) << "\ngot      "
                  << result.got << "\n         " << result.detail << "\nnext     " << result.next;
  }
}

INSTANTIATE_TEST_SUITE_P(Process, FaultProcess, ::testing::ValuesIn(fault_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace planwright::testing
