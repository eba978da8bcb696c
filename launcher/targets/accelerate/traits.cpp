#include "launcher/targets/accelerate/traits.h"

#include "estimator/spec/axis_values.h"
#include "launcher/targets/accelerate/emit.h"
#include "launcher/targets/accelerate/rules.h"
#include "launcher/targets/accelerate/states.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets::accelerate {
namespace {

bool under_deepspeed(const Candidate& c) { return engine_of(c) == Engine::deepspeed; }

TargetTraits make_traits() {
  TargetTraits traits =
      states("accelerate", "1.15.0", {.under_deepspeed = under_deepspeed, .fsdp1 = is_fsdp1});
  traits.rules = joined({emit_rules(),
                         estimable_models(true),
                         estimable_offload(),
                         estimable_optimizers({OptimizerKind::adamw, OptimizerKind::lion,
                                               OptimizerKind::sgd, OptimizerKind::adafactor}),
                         {estimable_types(traits.recipe, false, true)}});
  traits.knobs = emitted_knobs();
  traits.axes.tp = traits.axes.hsdp = usual_degrees();
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() { return {.traits = traits(), .emit = emit}; }

}  // namespace planwright::targets::accelerate
