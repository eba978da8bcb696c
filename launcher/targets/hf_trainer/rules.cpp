#include "launcher/targets/hf_trainer/rules.h"

#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/fsdp1.h"
#include "launcher/targets/shared/knobs.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::hf_trainer {
namespace {

constexpr const char* kArguments =
    "huggingface/transformers src/transformers/training_args.py @ v5.23.0";
constexpr const char* kTrainer = "huggingface/transformers src/transformers/trainer.py @ v5.23.0";
constexpr const char* kFsdp = "huggingface/accelerate src/accelerate/utils/fsdp_utils.py @ v1.15.0";
constexpr const char* kZeroConfig =
    "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py @ 0.19.8";

bool is_fsdp(const Candidate& c) { return engine_of(c) != Engine::deepspeed && c.zero > 0; }

std::vector<Rule> engine_rules() {
  return {
      {"zero_one_needs_deepspeed",
       [](const Problem&, const Candidate& c) {
         return c.zero == 1 && engine_of(c) != Engine::deepspeed;
       },
       "zero 1 has no FSDP form, which shards gradients with the optimizer's states",
       "use --zero 2 or 3, or the knob engine=deepspeed", kFsdp},
      {"cpu_ranks_do_not_shard",
       [](const Problem& p, const Candidate& c) {
         return p.cluster.device.kind == DeviceKind::cpu && is_fsdp(c);
       },
       "the Trainer switches FSDP on for accelerators only, and the device is {device}",
       "use --zero 0 on CPUs, or the knob engine=deepspeed", kTrainer},
      {"sharded_optimizer_is_torchs",
       [](const Problem& p, const Candidate& c) {
         const OptimizerKind kind = p.workload.optimizer;
         return is_fsdp(c) && kind != OptimizerKind::adamw && kind != OptimizerKind::adam8bit &&
                kind != OptimizerKind::sgd;
       },
       "optimizer {optimizer} does not step FSDP2's sharded tensors",
       "use --optimizer adamw, adam8bit or sgd, or --zero 0, or the knob engine=deepspeed",
       "axolotl-ai-cloud/axolotl src/axolotl/utils/schemas/validation.py @ v0.18.0"},
      {"sharded_updates_are_fp32",
       [](const Problem& p, const Candidate& c) {
         return c.zero > 0 && autocasts(c) && updated_type(p.workload.recipe) != DType::fp32;
       },
       "sharded weights that the optimizer updates are fp32 under the Trainer, and the plan's are "
       "not",
       "use --master-weights on", kFsdp},
  };
}

std::vector<Rule> offload_rules() {
  Rule all_states = offload_of_all_states(kArguments);
  all_states.broken = [broken = std::move(all_states.broken)](const Problem& p,
                                                              const Candidate& c) {
    return engine_of(c) != Engine::deepspeed && broken(p, c);
  };
  return {
      all_states,
      {"params_offload_needs_zero_three",
       [](const Problem&, const Candidate& c) {
         return engine_of(c) == Engine::deepspeed && c.offload.params && c.zero != 3;
       },
       "offload of weights needs sharded ones, and zero is {zero}",
       "use --zero 3, or --offload without params", kZeroConfig},
      {"optimizer_offload_needs_zero",
       [](const Problem& p, const Candidate& c) {
         return engine_of(c) == Engine::deepspeed && c.offload.optimizer &&
                (c.zero < 1 || p.workload.optimizer != OptimizerKind::adamw);
       },
       "DeepSpeed offloads sharded states of AdamW: zero {zero}, optimizer {optimizer}",
       "use --zero 1, 2 or 3 with --optimizer adamw, or --offload none", kZeroConfig},
      disk_needs_zero_three(kZeroConfig),
  };
}

}  // namespace

Engine engine_of(const Candidate& candidate) {
  return from_word<Engine>(knob_value(candidate, emitted_knobs(), kEngineKnob))
      .value_or(Engine::fsdp2);
}

bool fuses_adamw(const Candidate& candidate) { return !checkpoints_reentrantly(candidate); }

bool is_fsdp1(const Candidate& candidate) {
  return candidate.zero >= 2 && engine_of(candidate) == Engine::fsdp1;
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs = [] {
    std::vector<Knob> knobs = module_knobs();
    knobs.insert(knobs.begin(), {kEngineKnob, all_words<Engine>(),
                                 "what shards: FSDP2 (DDP at zero 0), DeepSpeed or FSDP1"});
    knobs.insert(knobs.begin() + 1, prefetch_knob());
    return knobs;
  }();
  return kKnobs;
}

std::vector<Rule> emit_rules() {
  std::vector<Rule> all{
      known_knobs(emitted_knobs(), kArguments),
      trains_only(kArguments),
      one_stage(kTrainer),
      one_tensor_rank(kArguments),
      one_context_rank(kArguments),
      no_expert_ranks(kArguments),
      no_sequence_parallel(kArguments),
      no_replicas(kArguments),
      equal_stages(kTrainer),
      recompute_among({RecomputeKind::none, RecomputeKind::full}, kArguments),
      precision_among({Precision::bf16, Precision::fp16, Precision::fp32}, kArguments),
      prefetch_is_fsdp1s(is_fsdp1),
  };
  for (auto& group : {engine_rules(), offload_rules(), module_rules(kArguments)}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace planwright::targets::hf_trainer
