#include "launcher/targets/hf_trainer/traits.h"

#include "launcher/targets/accelerate/states.h"
#include "launcher/targets/hf_trainer/emit.h"
#include "launcher/targets/hf_trainer/log.h"
#include "launcher/targets/hf_trainer/rules.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::hf_trainer {
namespace {

bool under_deepspeed(const Candidate& c) { return engine_of(c) == Engine::deepspeed; }
bool under_fsdp1(const Candidate& c) { return engine_of(c) == Engine::fsdp1 && c.zero >= 2; }

/// Its sgd is torch's without momentum, its AdamW the fused one that the emitter names. Source:
/// huggingface/transformers src/transformers/trainer_optimizer.py @ v5.23.0.
TargetTraits make_traits() {
  TargetTraits traits = accelerate::states("hf-trainer", "5.23.0",
                                           {.under_deepspeed = under_deepspeed,
                                            .has_momentum = false,
                                            .fused_adamw = fuses_adamw,
                                            .fsdp1 = under_fsdp1,
                                            .reentrant = checkpoints_reentrantly});
  traits.rules = joined({emit_rules(),
                         estimable_models(true),
                         estimable_offload(),
                         estimable_optimizers({OptimizerKind::adamw, OptimizerKind::lion,
                                               OptimizerKind::sgd, OptimizerKind::adafactor}),
                         {estimable_types(traits.recipe, false, true)}});
  traits.knobs = emitted_knobs();
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() { return {.traits = traits(), .emit = emit, .logs = {log_format()}}; }

}  // namespace planwright::targets::hf_trainer
