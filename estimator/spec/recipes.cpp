#include "estimator/spec/recipes.h"

namespace planwright {
namespace {

double bytes(DType type) { return static_cast<double>(bytes_of(type)); }

/// Moments that the optimizer keeps of every parameter.
double moments(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::adamw:
    case OptimizerKind::adam8bit:
    case OptimizerKind::paged_adam8bit:
      return 2;
    case OptimizerKind::lion:
    case OptimizerKind::sgd:
      return 1;
    case OptimizerKind::adafactor:
      return 0;
  }
  return 0;
}

/// A byte, and an fp32 scale for each 256 of them. Source: bitsandbytes optim/optimizer.py,
/// Optimizer2State.init_state, blockwise with blocks of 256; earlier versions had 2048.
constexpr double kByteState = 1 + 4.0 / 256;

}  // namespace

double state_bytes_per_parameter(OptimizerKind optimizer, DType state) {
  const bool in_bytes =
      optimizer == OptimizerKind::adam8bit || optimizer == OptimizerKind::paged_adam8bit;
  return moments(optimizer) * (in_bytes ? kByteState : bytes(state));
}

double bytes_per_parameter(const PrecisionRecipe& r, OptimizerKind optimizer) {
  return bytes(r.storage) + bytes(r.gradient) + (r.master ? bytes(*r.master) : 0) +
         (r.summed ? bytes(*r.summed) : 0) + state_bytes_per_parameter(optimizer, r.state);
}

DType product_type(const Workload& workload) {
  return workload.precision == Precision::fp8 ? DType::fp8 : workload.recipe.compute;
}

const std::vector<StandardRecipe>& standard_recipes() {
  using enum DType;
  static const std::vector<StandardRecipe> kRecipes{
      {12,
       "bf16 without a master copy",
       {bf16, bf16, bf16, {}, fp32},
       "16-bit weights and gradients, fp32 moments: a plain AdamW over a bf16 model with fp32 "
       "states"},
      {14,
       "bf16 without a master copy, fp32 gradients",
       {bf16, bf16, fp32, {}, fp32},
       "the same with gradients summed in fp32"},
      {16, "fp32", {fp32, fp32, fp32, {}, fp32}, "a plain AdamW over an fp32 model"},
      {16,
       "mixed, 16-bit gradients",
       {bf16, bf16, bf16, fp32, fp32},
       "Rajbhandari et al. (2020), arXiv:1910.02054, section 3.1: 2 + 2 + 12"},
      {18,
       "mixed, fp32 gradients",
       {bf16, bf16, fp32, fp32, fp32},
       "the same with gradients that are made and summed in fp32: 2 + 4 + 12"},
      {20,
       "mixed, 16-bit gradients summed in fp32",
       {bf16, bf16, bf16, fp32, fp32, fp32},
       "16-bit gradients, and fp32 ones beside them in which they are summed: 2 + 2 + 4 + 12"}};
  return kRecipes;
}

}  // namespace planwright
