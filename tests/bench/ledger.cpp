#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/spec/words.h"
#include "tests/support/built_programs.h"
#include "tests/support/ledger_comparison.h"
#include "tests/support/markdown.h"
#include "tests/support/recipe_cells.h"

/// The ledger tables: the estimate against what every rank of the CPU worker measured. First both
/// kinds of block in two precisions under three widths of data parallelism, with and without ZeRO
/// and recomputation, over all shapes; then every optimizer with every mix of types; then every
/// layout; then ranks that one process plays by itself. Fails if a single byte differs.
namespace planwright::testing {
namespace {

struct Tally {
  int cases = 0, states = 0, peaks = 0;
  double tensor_difference = 0, allocated_difference = 0;

  void add(const LedgerComparison& each) {
    ++cases;
    states += each.state_faults.empty() ? 1 : 0;
    peaks += each.peak_faults.empty() ? 1 : 0;
    tensor_difference = std::max(tensor_difference, each.tensor_difference);
    allocated_difference = std::max(allocated_difference, each.allocated_difference);
  }
  bool exact() const { return states == cases && peaks == cases; }
};

std::string percent(double fraction) { return fmt::format("{:.3f} %", 100 * fraction); }

/// Rows of a table with what their cases have in common.
class TallyTable {
 public:
  explicit TallyTable(std::vector<std::string> columns) {
    for (const char* each : {"cases", "states exact", "tensor peak exact", "worst tensor peak",
                             "worst allocated peak"}) {
      columns.emplace_back(each);
    }
    table_.emplace(std::move(columns));
  }

  void add(std::vector<std::string> cells, const Tally& tally) {
    cells.push_back(std::to_string(tally.cases));
    cells.push_back(fmt::format("{}/{}", tally.states, tally.cases));
    cells.push_back(fmt::format("{}/{}", tally.peaks, tally.cases));
    cells.push_back(percent(tally.tensor_difference));
    cells.push_back(percent(tally.allocated_difference));
    table_->add(std::move(cells));
  }

  std::string text() const { return table_->text(); }

 private:
  std::optional<MarkdownTable> table_;
};

void print_faults(const LedgerCase& here, const LedgerComparison& each) {
  for (const auto* faults : {&each.state_faults, &each.peak_faults}) {
    for (const std::string& fault : *faults) fmt::print("- {}: {}\n", here.name, fault);
  }
}

/// All axes but the shape.
LedgerCell row_of(LedgerCell cell) {
  cell.shape = 0;
  return cell;
}

std::vector<std::string> labels(const LedgerCell& row) {
  return {std::string(word(row.kind)), std::string(word(row.precision)), std::to_string(row.dp),
          std::to_string(row.zero), std::string(word(row.recompute))};
}

void run_cells(Tally& total) {
  const auto cells = ledger_cells();
  std::vector<LedgerCase> cases;
  for (const LedgerCell& cell : cells) cases.push_back(case_of(cell));
  const auto compared = compare_ledgers(cases, built_programs(PLANWRIGHT_BIN_DIR));
  TallyTable table({"blocks", "precision", "dp", "zero", "recompute"});
  for (std::size_t begin = 0, end = 0; begin < cells.size(); begin = end) {
    Tally tally;
    for (; end < cells.size() && row_of(cells[end]) == row_of(cells[begin]); ++end) {
      tally.add(compared[end]);
      total.add(compared[end]);
      print_faults(cases[end], compared[end]);
    }
    table.add(labels(cells[begin]), tally);
  }
  fmt::print("{}\n", table.text());
}

void run_recipes(Tally& total) {
  const auto cells = recipe_cells();
  std::vector<LedgerCase> cases;
  for (const LedgerCell& cell : cells) {
    cases.push_back(case_of(cell));
    cases.back().name = describe_recipe(cell);
  }
  const auto compared = compare_ledgers(cases, built_programs(PLANWRIGHT_BIN_DIR));
  TallyTable table({"optimizer", "types"});
  for (const OptimizerKind optimizer : worker_optimizers()) {
    for (const NamedRecipe& recipe : named_recipes()) {
      Tally tally;
      for (const LedgerComparison& each : compared) {
        const LedgerCell& cell = cells[each.index];
        if (cell.optimizer != optimizer || cell.recipe != recipe.recipe) continue;
        tally.add(each);
        total.add(each);
        print_faults(cases[each.index], each);
      }
      table.add({std::string(word(optimizer)), recipe.name}, tally);
    }
  }
  fmt::print("{}\n", table.text());
}

/// In both precisions.
void run_layouts(Tally& total) {
  TallyTable table({"model", "layout", "ranks"});
  std::vector<LedgerCase> cases;
  for (const LayoutModel model : kLayoutModels) {
    for (const Candidate& layout : layouts_of(model)) {
      cases.push_back(case_of(model, layout, Precision::fp32));
      cases.push_back(case_of(model, layout, Precision::bf16));
    }
  }
  const auto compared = compare_ledgers(cases, built_programs(PLANWRIGHT_BIN_DIR));
  for (std::size_t i = 0; i < cases.size(); i += 2) {
    Tally tally;
    for (const std::size_t j : {i, i + 1}) {
      tally.add(compared[j]);
      total.add(compared[j]);
      print_faults(cases[j], compared[j]);
    }
    const Candidate& layout = cases[i].candidate;
    table.add({cases[i].problem.model.name, describe(layout), std::to_string(layout.world())},
              tally);
  }
  fmt::print("{}\n", table.text());
}

/// Every rank of the layouts of more than one, played alone.
void run_shadows(Tally& total) {
  TallyTable table({"model", "shadow of", "ranks"});
  for (const LayoutModel model : kLayoutModels) {
    for (const Candidate& layout : layouts_of(model)) {
      const int world = static_cast<int>(layout.world());
      if (world == 1) continue;
      std::vector<int> ranks(static_cast<std::size_t>(world));
      std::iota(ranks.begin(), ranks.end(), 0);
      const LedgerCase here = case_of(model, layout, Precision::fp32);
      const auto compared = compare_shadow(here, ranks, built_programs(PLANWRIGHT_BIN_DIR));
      Tally tally;
      tally.add(compared);
      total.add(compared);
      print_faults(here, compared);
      table.add({here.problem.model.name, describe(layout), std::to_string(world)}, tally);
    }
  }
  fmt::print("{}\n", table.text());
}

int run() {
  Tally total;
  run_cells(total);
  run_recipes(total);
  run_layouts(total);
  run_shadows(total);
  fmt::print(
      "{} of {} cases: states exact to the byte in {}, tensor peak of a steady step in {}; worst "
      "tensor peak {}, worst allocated peak {}. Each on every rank, one thread per rank.\nThe "
      "allocated peak counts the kernels' workspace too. In bf16 the matrix library's scratch is "
      "part of it, a coefficient that is learned, here at its prior.\n",
      total.exact() ? "All" : "Some", total.cases, total.states, total.peaks,
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
