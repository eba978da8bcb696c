#include <gtest/gtest.h>

#include <vector>

#include "launcher/files.h"
#include "tests/support/built_programs.h"
#include "tests/support/layout_training.h"

namespace planwright::testing {
namespace {

class LayoutProcess : public ::testing::TestWithParam<LayoutModel> {};

/// The whole table, with ten steps, is `./dev bench equality`; here two of the models have an
/// eighth of the layouts each, and every model half of the techniques.
TEST_P(LayoutProcess, TrainsLikeOneProcess) {
  constexpr int kSteps = 2;
  std::vector<Candidate> mine;
  const auto techniques = technique_layouts(GetParam());
  for (std::size_t i = static_cast<std::size_t>(GetParam()) % 2; i < techniques.size(); i += 2) {
    mine.push_back(techniques[i]);
  }
  for (std::size_t i = 0; i < layouts().size(); ++i) {
    if (GetParam() == LayoutModel::llama && i % 8 == 1) mine.push_back(layouts()[i]);
    if (GetParam() == LayoutModel::gpt_tied && i % 8 == 3) mine.push_back(layouts()[i]);
  }
  const launcher::WorkFolder folder("");
  const auto options = built_programs(PLANWRIGHT_BIN_DIR);
  const auto expected =
      train_layouts(GetParam(), {reference_layout(GetParam())}, kSteps, folder.path(), options)
          .front();
  const auto dumps = train_layouts(GetParam(), mine, kSteps, folder.path(), options);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const LayoutDifference each = difference(GetParam(), dumps[i], expected);
    EXPECT_LE(each.largest(), 1e-10) << describe(mine[i]) << ": " << each.gradient.tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(OfEachModel, LayoutProcess, ::testing::ValuesIn(kLayoutModels));

}  // namespace
}  // namespace planwright::testing
