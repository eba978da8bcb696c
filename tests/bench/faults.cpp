#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "launcher/clock.h"
#include "tests/support/fault_run.h"
#include "tests/support/markdown.h"

/// The fault table: what was done to a probe, what was said of it, how soon everything of it was
/// gone, and how the probe after it went. Fails if a row is not as it has to be.
namespace planwright::testing {
namespace {

struct Tally {
  int rows = 0, good = 0, skipped = 0;
  double slowest_peers_s = 0, slowest_all_s = 0;

  void add(const FaultResult& result) {
    ++rows;
    skipped += result.skipped.empty() ? 0 : 1;
    good += result.skipped.empty() && result.wrong.empty() && result.late.empty() ? 1 : 0;
    slowest_peers_s = std::max(slowest_peers_s, result.peers_gone_s.value_or(0));
    slowest_all_s = std::max(slowest_all_s, result.all_gone_s.value_or(0));
  }
};

std::string seconds_text(std::optional<double> seconds) {
  return seconds ? fmt::format("{:.2f} s", *seconds) : "–";
}

/// `names`: of the rows to run; none: all.
int run(const std::vector<std::string>& names) {
  MarkdownTable table({"fault", "where", "expected", "got", "peers gone after",
                       "everything gone after", "next probe"});
  Tally tally;
  const double begin = launcher::monotonic_s();
  for (const FaultRow& row : fault_rows()) {
    if (!names.empty() && std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    const FaultResult result = run_fault(row, PLANWRIGHT_BIN_DIR);
    tally.add(result);
    if (!result.skipped.empty()) {
      table.add(
          {row.fault, row.where, expected_text(row), "skipped: " + result.skipped, "–", "–", "–"});
      continue;
    }
    table.add({row.fault, row.where, expected_text(row), result.got,
               seconds_text(result.peers_gone_s), seconds_text(result.all_gone_s), result.next});
    for (const auto* complaints : {&result.wrong, &result.late}) {
      for (const std::string& each : *complaints) {
        fmt::print("- {}: {}. {}\n", row.name, each, result.detail);
      }
    }
  }
  fmt::print(
      "{}\n{} faults: {} as they have to be, {} skipped, in {:.0f} s. A rank's peers are gone at "
      "most {:.2f} s after it (allowed: {:g}), and {:.2f} s after the last of them at most "
      "everything is: processes, files, sockets, and the probe has returned (allowed: {:g}).\n",
      table.text(), tally.rows, tally.good, tally.skipped, launcher::monotonic_s() - begin,
      tally.slowest_peers_s, kPeersGone_s, tally.slowest_all_s, kAllGone_s);
  return tally.good + tally.skipped == tally.rows ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main(int argc, char** argv) {
  try {
    return planwright::testing::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "faults: {}\n", error.what());
    return 1;
  }
}
