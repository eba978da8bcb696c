#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "estimator/spec/words.h"
#include "tests/support/built_programs.h"
#include "tests/support/ledger_comparison.h"
#include "tests/support/markdown.h"

/// The ledger table: the estimate against what every rank of the CPU worker measured, for both
/// kinds of block, two precisions, three widths of data parallelism, with and without ZeRO and
/// recomputation, over all shapes. Fails if a single byte differs.
namespace planwright::testing {
namespace {

struct Tally {
  int shapes = 0, states = 0, peaks = 0;
  double tensor_difference = 0, allocated_difference = 0;

  void add(const LedgerComparison& each) {
    ++shapes;
    states += each.state_faults.empty() ? 1 : 0;
    peaks += each.peak_faults.empty() ? 1 : 0;
    tensor_difference = std::max(tensor_difference, each.tensor_difference);
    allocated_difference = std::max(allocated_difference, each.allocated_difference);
  }
  bool exact() const { return states == shapes && peaks == shapes; }
};

/// All axes but the shape.
LedgerCell row_of(LedgerCell cell) {
  cell.shape = 0;
  return cell;
}

std::string percent(double fraction) { return fmt::format("{:.3f} %", 100 * fraction); }

void add_row(MarkdownTable& table, const LedgerCell& row, const Tally& tally) {
  table.add({std::string(word(row.kind)), std::string(word(row.precision)), std::to_string(row.dp),
             std::to_string(row.zero), std::string(word(row.recompute)),
             std::to_string(tally.shapes), fmt::format("{}/{}", tally.states, tally.shapes),
             fmt::format("{}/{}", tally.peaks, tally.shapes), percent(tally.tensor_difference),
             percent(tally.allocated_difference)});
}

std::string table_text(const std::vector<LedgerComparison>& cells) {
  MarkdownTable table({"blocks", "precision", "dp", "zero", "recompute", "shapes", "states exact",
                       "tensor peak exact", "worst tensor peak", "worst allocated peak"});
  for (std::size_t begin = 0; begin < cells.size();) {
    Tally tally;
    std::size_t end = begin;
    for (; end < cells.size() && row_of(cells[end].cell) == row_of(cells[begin].cell); ++end) {
      tally.add(cells[end]);
    }
    add_row(table, cells[begin].cell, tally);
    begin = end;
  }
  return table.text();
}

void print_faults(const LedgerComparison& each) {
  for (const auto* faults : {&each.state_faults, &each.peak_faults}) {
    for (const std::string& fault : *faults) {
      fmt::print("- {}: {}\n", describe(each.cell), fault);
    }
  }
}

int run() {
  const auto cells = compare_ledgers(ledger_cells(), built_programs(PLANWRIGHT_BIN_DIR));
  Tally total;
  for (const LedgerComparison& each : cells) total.add(each);

  fmt::print("{}\n", table_text(cells));
  for (const LedgerComparison& each : cells) print_faults(each);
  fmt::print(
      "{} of {} cells: states exact to the byte in {}, tensor peak of a steady step in {}; worst "
      "tensor peak {}, worst allocated peak {}. Each on every rank, one thread per rank.\nThe "
      "allocated peak counts the kernels' workspace too. In bf16 the matrix library's scratch is "
      "part of it, a coefficient that is learned, here at its prior.\n",
      total.exact() ? "All" : "Some", total.shapes, total.states, total.peaks,
      percent(total.tensor_difference), percent(total.allocated_difference));
  return total.exact() ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main() {
  try {
    return planwright::testing::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "ledger: {}\n", error.what());
    return 1;
  }
}
