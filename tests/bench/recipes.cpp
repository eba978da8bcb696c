#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <string>

#include "estimator/spec/words.h"
#include "tests/support/built_programs.h"
#include "tests/support/ledger_comparison.h"
#include "tests/support/markdown.h"
#include "tests/support/recipe_cells.h"

/// The ledger of every optimizer with every mix of types: the estimate against what every rank of
/// the CPU worker measured, over one to three ranks, with and without ZeRO 1. Fails if a single
/// byte differs.
namespace planwright::testing {
namespace {

struct Tally {
  int cells = 0, states = 0, peaks = 0;
  double allocated_difference = 0;

  void add(const LedgerComparison& each) {
    ++cells;
    states += each.state_faults.empty() ? 1 : 0;
    peaks += each.peak_faults.empty() ? 1 : 0;
    allocated_difference = std::max(allocated_difference, each.allocated_difference);
  }
  bool exact() const { return states == cells && peaks == cells; }
};

int run() {
  MarkdownTable table(
      {"optimizer", "types", "cells", "states exact", "tensor peak exact", "worst allocated peak"});
  const auto compared = compare_ledgers(recipe_cells(), built_programs(PLANWRIGHT_BIN_DIR));
  bool exact = true;
  for (const OptimizerKind optimizer : worker_optimizers()) {
    for (const NamedRecipe& recipe : named_recipes()) {
      Tally tally;
      for (const LedgerComparison& each : compared) {
        if (each.cell.optimizer == optimizer && each.cell.recipe == recipe.recipe) tally.add(each);
      }
      table.add({std::string(word(optimizer)), recipe.name, std::to_string(tally.cells),
                 fmt::format("{}/{}", tally.states, tally.cells),
                 fmt::format("{}/{}", tally.peaks, tally.cells),
                 fmt::format("{:.3f} %", 100 * tally.allocated_difference)});
      exact = exact && tally.exact();
    }
  }
  fmt::print("{}\n", table.text());
  for (const LedgerComparison& each : compared) {
    for (const auto* faults : {&each.state_faults, &each.peak_faults}) {
      for (const std::string& fault : *faults) {
        fmt::print("- {}: {}\n", describe_recipe(each.cell), fault);
      }
    }
  }
  fmt::print("{} of {} cells are exact to the byte, on every rank.\n", exact ? "All" : "Not all",
             compared.size());
  return exact ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main() {
  try {
    return planwright::testing::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "recipes: {}\n", error.what());
    return 1;
  }
}
