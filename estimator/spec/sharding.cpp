#include "estimator/spec/sharding.h"

namespace planwright {

Sharding flat_sharding(const Problem& problem, const Candidate& candidate) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  Sharding sharding;
  if (candidate.zero > 0) sharding.gathering = Gathering::after_step;
  if (candidate.zero == 3) sharding.gathering = Gathering::each_use;
  sharding.gathered = recipe.storage;
  sharding.by_unit = candidate.zero == 3;
  sharding.buckets = sharding.each_micro_batch = candidate.zero >= 2;
  sharding.made = sharding.reduced = recipe.gradient;
  return sharding;
}

}  // namespace planwright
