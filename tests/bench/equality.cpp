#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "launcher/files.h"
#include "tests/support/built_programs.h"
#include "tests/support/layout_training.h"
#include "tests/support/markdown.h"

/// The equality table: what every layout computes against the single process, in fp64: loss and
/// gradients of the first step, weights after ten steps of SGD. Fails above 1e-10 of a tensor's
/// largest value.
namespace planwright::testing {
namespace {

constexpr double kAllowed = 1e-10;
constexpr int kSteps = 10;

std::string text_of(const TensorDifference& worst) {
  return fmt::format("{:.1e} ({})", worst.relative, worst.tensor);
}

void keep_larger(LayoutDifference& total, const LayoutDifference& each) {
  total.loss = std::max(total.loss, each.loss);
  if (each.gradient.relative > total.gradient.relative) total.gradient = each.gradient;
  if (each.weight.relative > total.weight.relative) total.weight = each.weight;
}

int run() {
  const launcher::WorkFolder folder("");
  const auto options = built_programs(PLANWRIGHT_BIN_DIR);
  MarkdownTable table(
      {"model", "layout", "ranks", "loss", "worst gradient", "worst weight after ten steps"});
  LayoutDifference total;
  std::size_t trained = 0;
  for (const LayoutModel model : kLayoutModels) {
    const auto expected =
        train_layouts(model, {reference_layout(model)}, kSteps, folder.path(), options).front();
    const std::vector<Candidate> mine = layouts_of(model);
    const auto dumps = train_layouts(model, mine, kSteps, folder.path(), options);
    for (std::size_t i = 0; i < dumps.size(); ++i) {
      const LayoutDifference each = difference(model, dumps[i], expected);
      table.add({layout_model(model).name, describe(mine[i]), std::to_string(mine[i].world()),
                 fmt::format("{:.1e}", each.loss), text_of(each.gradient), text_of(each.weight)});
      keep_larger(total, each);
    }
    trained += mine.size();
  }
  fmt::print("{}\n", table.text());
  fmt::print(
      "{} layouts of {} models against one process with the whole batch at once: worst loss "
      "{:.1e}, gradient {:.1e}, weight after ten SGD steps {:.1e}; {:.0e} is allowed.\n",
      trained, kLayoutModels.size(), total.loss, total.gradient.relative, total.weight.relative,
      kAllowed);
  return total.largest() <= kAllowed ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main() {
  try {
    return planwright::testing::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "equality: {}\n", error.what());
    return 1;
  }
}
