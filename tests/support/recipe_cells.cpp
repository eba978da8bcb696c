#include "tests/support/recipe_cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace planwright::testing {
namespace {

constexpr int kLargestDp = 3;

PrecisionRecipe recipe_of(DType compute, DType gradient, std::optional<DType> master, DType state) {
  return {.storage = compute,
          .compute = compute,
          .gradient = gradient,
          .master = master,
          .state = state};
}

}  // namespace

std::vector<NamedRecipe> named_recipes() {
  using enum DType;
  std::vector<NamedRecipe> all;
  const auto add = [&](Precision precision, const PrecisionRecipe& r) {
    all.push_back(
        {fmt::format("{}_gradients_{}_master_{}_states_{}", word(r.compute), word(r.gradient),
                     r.master ? word(*r.master) : "none", word(r.state)),
         precision, r});
  };
  for (const DType state : {fp32, bf16}) {
    add(Precision::fp32, recipe_of(fp32, fp32, std::nullopt, state));
    add(Precision::fp32, recipe_of(fp32, fp32, fp32, state));
    for (const DType gradient : {fp32, bf16}) {
      add(Precision::bf16, recipe_of(bf16, gradient, fp32, state));
      add(Precision::bf16, recipe_of(bf16, gradient, std::nullopt, state));
    }
    for (const DType gradient : {fp32, fp16}) {
      add(Precision::fp16, recipe_of(fp16, gradient, fp32, state));
    }
  }
  return all;
}

std::vector<OptimizerKind> worker_optimizers() {
  return {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion, OptimizerKind::adafactor};
}

std::vector<LedgerCell> recipe_cells() {
  std::vector<LedgerCell> cells;
  for (const OptimizerKind optimizer : worker_optimizers()) {
    for (const NamedRecipe& recipe : named_recipes()) {
      for (int dp = 1; dp <= kLargestDp; ++dp) {
        for (const int zero : {0, 1}) {
          if (zero == 1 && optimizer == OptimizerKind::adafactor) continue;
          const std::size_t turn = cells.size();
          const bool full = turn / 2 % 2 == 1;
          cells.push_back({turn % 3 == 0 ? BlockKind::gpt : BlockKind::llama, recipe.precision, dp,
                           zero, full ? RecomputeKind::full : RecomputeKind::none,
                           turn % ledger_shapes().size(), optimizer, recipe.recipe});
        }
      }
    }
  }
  return cells;
}

std::string describe_recipe(const LedgerCell& cell) {
  const auto recipes = named_recipes();
  const auto found = std::find_if(recipes.begin(), recipes.end(), [&](const NamedRecipe& each) {
    return each.recipe == cell.recipe;
  });
  return fmt::format("{}, {}: {}", word(cell.optimizer),
                     found == recipes.end() ? "the target's recipe" : found->name, describe(cell));
}

}  // namespace planwright::testing
