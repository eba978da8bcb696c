#include "launcher/targets/hf_trainer/traits.h"

#include "launcher/targets/accelerate/states.h"
#include "launcher/targets/hf_trainer/emit.h"
#include "launcher/targets/hf_trainer/log.h"
#include "launcher/targets/hf_trainer/rules.h"
#include "launcher/targets/shared/activations.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::hf_trainer {
namespace {

bool under_deepspeed(const Candidate& c) { return engine_of(c) == Engine::deepspeed; }

/// Accelerate takes a process that torchrun has started for one of many on a CPU, and on a GPU
/// counts them. Source: huggingface/accelerate src/accelerate/state.py, _prepare_backend and
/// use_distributed, accelerator.py, multi_device and prepare_model @ v1.15.0.
bool replicates_one(const Problem& p) { return p.cluster.device.kind == DeviceKind::cpu; }

/// DeepSpeed's partition of an optimizer's states that are not as wide as its weights.
Rule estimable_byte_states() {
  return {"estimates_byte_states",
          [](const Problem& p, const Candidate& c) {
            const OptimizerKind kind = p.workload.optimizer;
            return under_deepspeed(c) &&
                   (kind == OptimizerKind::adam8bit || kind == OptimizerKind::paged_adam8bit);
          },
          "this version cannot estimate optimizer {optimizer} under DeepSpeed",
          "use --optimizer adamw, or the knob engine=fsdp2",
          "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py @ 0.19.8"};
}

constexpr const char* kActivations =
    "huggingface/trl trl/models/activation_offloading.py, OffloadActivations @ v1.9.0";

/// trl's hooks see what a checkpoint saves: a tensor of no bytes and the block's input. Copies run
/// on a stream of their own, and the five tensors that were saved last stay: none of a block's when
/// the final norm has saved its own. What that and the loss save is copied and stays, because it is
/// saved twice or among the last. What came back stays until the next one has been used.
ActivationOffload activation_offload(const Problem&, const Candidate&) {
  return {.leaving = Leaving::inputs,
          .follow = 2,
          .staying = Staying::to_next_rebuild,
          .copies_head = true};
}

std::vector<Rule> estimable_activations() {
  return {
      {"estimates_offload_of_inputs",
       [](const Problem&, const Candidate& c) {
         return c.offload.activations && c.recompute.kind != RecomputeKind::full;
       },
       "without recomputation trl offloads what every operator saves, which this version cannot "
       "estimate: recompute {recompute}",
       "use --recompute full, or --offload without activations", kActivations},
      {"estimates_offload_of_checkpoint",
       [](const Problem&, const Candidate& c) {
         return c.offload.activations && checkpoints_reentrantly(c);
       },
       "under a reentrant checkpoint trl offloads what a block saves when it is run again, too, "
       "which this version cannot estimate",
       "use the knob transformers=5.23, or --offload without activations", kActivations}};
}

/// Its sgd is torch's without momentum, its AdamW the fused one that the emitter names. Source:
/// huggingface/transformers src/transformers/trainer_optimizer.py @ v5.23.0.
TargetTraits make_traits() {
  TargetTraits traits = accelerate::states("hf-trainer", "5.23.0",
                                           {.under_deepspeed = under_deepspeed,
                                            .has_momentum = false,
                                            .replicates_one = replicates_one,
                                            .fused_adamw = fuses_adamw,
                                            .fsdp1 = is_fsdp1,
                                            .reentrant = checkpoints_reentrantly});
  traits.rules = joined({emit_rules(),
                         estimable_models(true),
                         estimable_offload(),
                         estimable_activations(),
                         estimable_optimizers({OptimizerKind::adamw, OptimizerKind::adam8bit,
                                               OptimizerKind::paged_adam8bit, OptimizerKind::lion,
                                               OptimizerKind::sgd, OptimizerKind::adafactor}),
                         {estimable_types(traits.recipe, false, true), estimable_byte_states()}});
  traits.knobs = emitted_knobs();
  traits.axes.offload = or_with_activations(traits.axes.offload);
  traits.activation_offload = activation_offload;
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() { return {.traits = traits(), .emit = emit, .logs = {log_format()}}; }

}  // namespace planwright::targets::hf_trainer
