#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ostream>

#include "tests/support/fault_run.h"

namespace planwright::testing {

void PrintTo(const FaultRow& row, std::ostream* out) { *out << row.fault << ", " << row.where; }

namespace {

/// Nothing that happens to a probe is taken for something else, leaves anything behind, or harms
/// the next one: tests/support/fault_rows.cpp.
class FaultProcess : public ::testing::TestWithParam<FaultRow> {
 protected:
  static void TearDownTestSuite() {
    std::printf("at most: peers gone after %.2f s, everything after %.2f s more\n", peers_gone_s_,
                all_gone_s_);
  }
  static void note(const FaultResult& result) {
    peers_gone_s_ = std::max(peers_gone_s_, result.peers_gone_s.value_or(0));
    all_gone_s_ = std::max(all_gone_s_, result.all_gone_s.value_or(0));
  }

 private:
  static inline double peers_gone_s_ = 0, all_gone_s_ = 0;
};

TEST_P(FaultProcess, IsNamedLeavesNothingAndHarmsNoOther) {
  const FaultResult result = run_fault(GetParam(), PLANWRIGHT_BIN_DIR);
  if (!result.skipped.empty()) GTEST_SKIP() << result.skipped;
  for (const std::string& each : result.wrong) {
    ADD_FAILURE() << each << "\nexpected " << expected_text(GetParam()) << "\ngot      "
                  << result.got << "\n         " << result.detail << "\nnext     " << result.next;
  }
  note(result);
}

INSTANTIATE_TEST_SUITE_P(Process, FaultProcess, ::testing::ValuesIn(fault_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace planwright::testing
