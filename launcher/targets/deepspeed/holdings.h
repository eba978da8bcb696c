#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "estimator/spec/target_traits.h"

/// What DeepSpeed keeps and does, for every target that runs under it.
namespace planwright::targets::deepspeed {

/// Weights in the type that is computed in, and so are gradients and their sums unless
/// `grad_accum_dtype` says otherwise; fp32 masters of 16-bit ones. Nullopt for fp64 and fp8.
std::optional<PrecisionRecipe> recipe(Precision precision);

/// The same of a problem whose recipe is another framework's, which leaves the sums to DeepSpeed.
PrecisionRecipe default_types(const PrecisionRecipe& recipe);

/// How a target runs under DeepSpeed: whether a candidate does, and in which types.
struct Use {
  std::function<bool(const Candidate&)> used;
  std::function<PrecisionRecipe(const PrecisionRecipe&)> types;
};

/// What --offload may say: states, or states and weights, to the host or to its disk.
std::vector<Offload> offloads();

std::vector<Holding> holdings(const Use& use);
Sharding sharding(const Problem& problem, const Candidate& candidate);

}  // namespace planwright::targets::deepspeed
