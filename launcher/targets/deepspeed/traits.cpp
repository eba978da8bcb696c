#include "launcher/targets/deepspeed/traits.h"

#include "estimator/spec/axis_values.h"
#include "launcher/targets/deepspeed/emit.h"
#include "launcher/targets/deepspeed/holdings.h"
#include "launcher/targets/deepspeed/log.h"
#include "launcher/targets/deepspeed/rules.h"
#include "launcher/targets/shared/activations.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/torch_states.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::deepspeed {
namespace {

/// Copies of a block's input run on a stream of their own. The last one is not copied, and the two
/// last ones are taken from where they are. Source: deepspeedai/DeepSpeed
/// deepspeed/runtime/activation_checkpointing/checkpointing.py, CheckpointFunction, and
/// offload_activations.py, _ActivationOffloadEngine @ 0.19.8.
ActivationOffload activation_offload(const Problem&, const Candidate&) {
  return {.leaving = Leaving::inputs, .follow = 2, .found = 2, .kept = 1};
}

/// DeepSpeed's own checkpoint runs a block again as a whole; others are torch's.
HfModules modules(const Problem& problem, const Candidate& candidate) {
  HfModules modules = modules_of(problem, candidate, {.gathered = true});
  modules.reentrant = modules.reentrant || candidate.offload.activations;
  return modules;
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("deepspeed", "0.19.8");
  traits.holdings = holdings({.used = [](const Candidate&) { return true; },
                              .types = [](const PrecisionRecipe& recipe) { return recipe; }});
  traits.holdings.push_back(hugging_face_rotary());
  traits.rules =
      joined({emit_rules(),
              estimable_models(),
              estimable_offload(),
              estimable_optimizers({OptimizerKind::adamw, OptimizerKind::lion, OptimizerKind::sgd}),
              {estimable_types(recipe, true)}});
  traits.knobs = emitted_knobs();
  traits.axes.tp = usual_degrees();
  traits.axes.zero = {0, 1, 2, 3};
  traits.axes.offload = or_with_activations(offloads());
  traits.activation_offload = activation_offload;
  traits.recipe = recipe;
  traits.kernels = transformers_modules;
  traits.modules = modules;
  traits.bucket_elements = reduce_bucket_elements;
  traits.overlaps = overlaps;
  traits.sharding = sharding;
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() { return {.traits = traits(), .emit = emit, .logs = {log_format()}}; }

}  // namespace planwright::targets::deepspeed
