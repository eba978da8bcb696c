#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/support/built_programs.h"
#include "tests/support/ledger_comparison.h"
#include "tests/support/recipe_cells.h"

namespace planwright::testing {
namespace {

using ::testing::IsEmpty;

/// Every value that occurs on an axis.
std::set<int> values_of_axis(std::size_t axis) {
  std::set<int> values;
  for (const LedgerCell& cell : ledger_cells()) values.insert(axis_codes(cell)[axis]);
  return values;
}

TEST(LedgerCells, AreAllCombinationsOfTheirAxesOnce) {
  const auto cells = ledger_cells();
  std::set<AxisCodes> different;
  for (const LedgerCell& cell : cells) different.insert(axis_codes(cell));
  EXPECT_EQ(different.size(), cells.size());
  EXPECT_GE(ledger_shapes().size(), 5u);
  EXPECT_EQ(cells.size(), 2 * 2 * 3 * 2 * 2 * ledger_shapes().size());
}

TEST(LedgerCells, HaveGroupedHeadsOddSizesTiedHeadsSeveralBucketsAndMicroBatches) {
  const auto& shapes = ledger_shapes();
  const auto some = [&](auto condition) {
    return std::any_of(shapes.begin(), shapes.end(), condition);
  };
  using Shape = const LedgerShape&;
  EXPECT_TRUE(some([](Shape s) { return s.kv_heads < s.heads && s.kv_heads > 1; }));
  EXPECT_TRUE(some([](Shape s) { return s.hidden % 2 == 1 && s.hidden != s.heads * s.head_dim; }));
  EXPECT_TRUE(some([](Shape s) { return s.tied; }));
  EXPECT_TRUE(some([](Shape s) { return !s.tied; }));
  EXPECT_TRUE(some([](Shape s) { return s.bucket_elements == 0; }));
  EXPECT_TRUE(some([](Shape s) { return s.accumulation > 1 && s.micro_batch > 1; }));
  for (const std::int64_t seq : {191, 192, 767, 768}) {
    EXPECT_TRUE(some([&](Shape s) { return s.seq == seq; })) << seq;
  }
}

TEST(CoveringCells, LetEveryTwoValuesOfDifferentAxesMeet) {
  const auto cells = covering_cells();
  EXPECT_LT(cells.size(), ledger_cells().size() / 8);
  constexpr std::size_t kAxes = AxisCodes{}.size();
  for (std::size_t a = 0; a < kAxes; ++a) {
    for (std::size_t b = a + 1; b < kAxes; ++b) {
      for (const int x : values_of_axis(a)) {
        for (const int y : values_of_axis(b)) {
          EXPECT_TRUE(std::any_of(cells.begin(), cells.end(),
                                  [&](const LedgerCell& cell) {
                                    return axis_codes(cell)[a] == x && axis_codes(cell)[b] == y;
                                  }))
              << "axis " << a << " at " << x << " with axis " << b << " at " << y;
        }
      }
    }
  }
}

void expect_exact(const std::vector<LedgerCase>& cases) {
  const auto compared = compare_ledgers(cases, built_programs(PLANWRIGHT_BIN_DIR));
  ASSERT_EQ(compared.size(), cases.size());
  for (const LedgerComparison& each : compared) {
    const LedgerCase& here = cases[each.index];
    EXPECT_THAT(each.state_faults, IsEmpty()) << here.name;
    EXPECT_THAT(each.peak_faults, IsEmpty()) << here.name;
    EXPECT_EQ(each.tensor_difference, 0) << here.name;
    if (here.problem.workload.precision == Precision::fp32) {
      EXPECT_EQ(each.allocated_difference, 0) << here.name << ": workspace is known too";
    }
  }
}

/// The whole table is `./dev bench ledger`.
TEST(AgreementProcess, OfEstimateAndWorkerIsExactToTheByteInEveryAccount) {
  std::vector<LedgerCase> cases;
  for (const LedgerCell& cell : covering_cells()) cases.push_back(case_of(cell));
  expect_exact(cases);
}

/// Every fourth cell, so that each optimizer and each mix of types is among them.
TEST(AgreementProcess, HoldsForOptimizersAndMixesOfTypes) {
  std::vector<LedgerCase> cases;
  const auto cells = recipe_cells();
  for (std::size_t i = 0; i < cells.size(); i += 4) {
    cases.push_back(case_of(cells[i]));
    cases.back().name = describe_recipe(cells[i]);
  }
  expect_exact(cases);
}

/// Every eighth layout and every fourth technique; precisions take turns.
TEST(AgreementProcess, IsExactToTheByteForLayouts) {
  std::vector<LedgerCase> cases;
  const auto precision = [&] { return cases.size() % 2 == 0 ? Precision::bf16 : Precision::fp32; };
  for (std::size_t i = 0; i < layouts().size(); i += 8) {
    const bool llama = i % 16 == 0;
    cases.push_back(
        case_of(llama ? LayoutModel::llama : LayoutModel::gpt_tied, layouts()[i], precision()));
  }
  for (const LayoutModel model : kLayoutModels) {
    const auto techniques = technique_layouts(model);
    for (std::size_t i = cases.size() % 4; i < techniques.size(); i += 4) {
      cases.push_back(case_of(model, techniques[i], precision()));
    }
  }
  expect_exact(cases);
}

/// What an accelerator's kernels allocate, as far as a CPU can show it.
TEST(AgreementProcess, HoldsForTheComposedKernelsToo) {
  std::vector<LedgerCase> cases;
  for (const LayoutModel model : kLayoutModels) {
    if (model == LayoutModel::gpt_dropout) continue;  // on CPUs' own kernels only
    const auto techniques = technique_layouts(model);
    for (std::size_t i = cases.size() % 3; i < techniques.size(); i += 3) {
      const Precision precision = cases.size() % 2 == 0 ? Precision::fp32 : Precision::bf16;
      cases.push_back(case_of(model, techniques[i], precision));
      cases.back().kernels = KernelSet::composed;
    }
  }
  expect_exact(cases);
}

}  // namespace
}  // namespace planwright::testing
