#pragma once

#include <string_view>
#include <vector>

#include "estimator/spec/workload.h"

/// What training keeps for every parameter.
namespace planwright {

/// Bytes of one parameter's copy of an optimizer's states; of factored ones none, since they are
/// kept per row and column.
double state_bytes_per_parameter(OptimizerKind optimizer, DType state);

/// Weight, gradient, master weight, states and summed gradient together.
double bytes_per_parameter(const PrecisionRecipe& recipe, OptimizerKind optimizer);

/// What linear layers of blocks bring their operands to: with fp8 that, and nothing else is.
DType product_type(const Workload& workload);

/// A recipe that is known by its bytes per parameter with AdamW.
struct StandardRecipe {
  int bytes;
  std::string_view name;
  PrecisionRecipe recipe;
  std::string_view source;
};
const std::vector<StandardRecipe>& standard_recipes();

}  // namespace planwright
