#pragma once

#include <string>
#include <vector>

#include "tests/support/ledger_cells.h"

namespace planwright::testing {

/// A mix of types that the built-in worker trains with, and the word that it is a change of.
struct NamedRecipe {
  std::string name;
  Precision precision;
  PrecisionRecipe recipe;
};

/// Every mix but the fp64 one: docs/runtime.md, Recipes.
std::vector<NamedRecipe> named_recipes();

/// The optimizers that the worker has.
std::vector<OptimizerKind> worker_optimizers();

/// Beside the ledger's table: every optimizer with every recipe over one to three ranks with and
/// without ZeRO 1, as far as it is legal. Shapes, blocks and recomputation take turns.
std::vector<LedgerCell> recipe_cells();

/// "lion, bf16 with bf16 gradients: llama ...".
std::string describe_recipe(const LedgerCell& cell);

}  // namespace planwright::testing
