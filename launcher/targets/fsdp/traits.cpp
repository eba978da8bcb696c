#include "launcher/targets/fsdp/traits.h"

#include "estimator/spec/axis_values.h"
#include "estimator/spec/recompute_rules.h"
#include "launcher/targets/fsdp/emit.h"
#include "launcher/targets/fsdp/rules.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/torch_states.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::fsdp {
namespace {

constexpr const char* kSettings = "launcher/targets/fsdp/emit.h";

/// The script gives embedding, each block, and norm with head to fully_shard, and lets every
/// backward reduce; of FullyShardedDataParallel blocks are units, and all else is one around them.
constexpr TorchUse kUse{.fsdp1 = is_fsdp1, .transformers = true};

/// fully_shard gathers weights in the type that is computed in; DistributedDataParallel is under
/// autocast.
HfModules modules(const Problem& problem, const Candidate& c) {
  HfModules modules = modules_of(problem, c, {.gathered = c.zero >= 2, .autocast = c.zero < 2});
  modules.reentrant = false;
  if (c.loss == LossKernel::fused) modules.loss = LossStyle::by_caller;
  return modules;
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("fsdp", "2.11.0");
  traits.holdings = torch_holdings(kUse);
  traits.holdings.push_back(hugging_face_rotary());
  traits.rules = joined({emit_rules(),
                         estimable_models(),
                         recompute_rules(kSettings),
                         estimable_offload(),
                         estimable_optimizers({OptimizerKind::adamw, OptimizerKind::lion,
                                               OptimizerKind::sgd, OptimizerKind::adafactor}),
                         {estimable_types(torch_recipe, true)}});
  traits.knobs = emitted_knobs();
  traits.axes.zero = {0, 2, 3};
  traits.axes.hsdp = usual_degrees();
  traits.axes.loss = {LossKernel::plain, LossKernel::fused};
  traits.axes.offload = offloads_of_all_states();
  for (const int k : {2, 3, 4}) traits.axes.recompute.push_back({RecomputeKind::alternate, k, {}});
  for (const int k : {1, 2, 4, 8, 16, 32, 64}) {
    traits.axes.recompute.push_back({RecomputeKind::first, k, {}});
  }
  traits.recipe = torch_recipe;
  traits.kernels = transformers_modules;
  traits.modules = modules;
  traits.bucket_elements = [](const Candidate&) { return ddp_bucket_elements(25); };
  traits.overlaps = [](const Candidate& candidate) { return !is_fsdp1(candidate); };
  traits.sharding = [](const Problem& problem, const Candidate& candidate) {
    return torch_sharding(kUse, problem, candidate);
  };
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() { return {.traits = traits(), .emit = emit}; }

}  // namespace planwright::targets::fsdp
