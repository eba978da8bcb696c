#include "launcher/targets/accelerate/rules.h"

#include "launcher/targets/shared/activations.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/fsdp1.h"
#include "launcher/targets/shared/knobs.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::accelerate {
namespace {

constexpr const char* kLaunch =
    "huggingface/accelerate src/accelerate/commands/launch.py @ v1.15.0";
constexpr const char* kPlugins =
    "huggingface/accelerate src/accelerate/utils/dataclasses.py @ v1.15.0";
constexpr const char* kParallelism =
    "huggingface/accelerate src/accelerate/parallelism_config.py @ v1.15.0";
constexpr const char* kFsdp = "huggingface/accelerate src/accelerate/utils/fsdp_utils.py @ v1.15.0";

bool is(const Candidate& candidate, Engine engine) { return engine_of(candidate) == engine; }

bool has_model_ranks(const Candidate& c) { return c.tp > 1 || c.cp > 1; }

/// One of a rule's, as long as the plug-in is not what shards.
Rule unless_deepspeed(Rule rule) {
  rule.broken = [broken = std::move(rule.broken)](const Problem& p, const Candidate& c) {
    return !is(c, Engine::deepspeed) && broken(p, c);
  };
  return rule;
}

std::vector<Rule> sharding_rules() {
  return {
      {"zero_one_needs_deepspeed",
       [](const Problem&, const Candidate& c) { return c.zero == 1 && !is(c, Engine::deepspeed); },
       "zero 1 has no FSDP form, which shards gradients with the optimizer's states",
       "use --zero 2 or 3, or the knob engine=deepspeed", kFsdp},
      {"model_ranks_need_fsdp2",
       [](const Problem&, const Candidate& c) {
         return has_model_ranks(c) && (!is(c, Engine::fsdp2) || c.zero < 2);
       },
       "Accelerate has tensor and context parallelism only under FSDP2: tp {tp}, cp {cp} at zero "
       "{zero}",
       "use --zero 2 or 3 with the knob engine=fsdp2, or --tp 1 --cp 1", kLaunch},
      {"something_left_to_shard",
       [](const Problem&, const Candidate& c) { return c.tp > 1 && shard_ranks(c) * c.cp == 1; },
       "Accelerate's FSDP2 has no ranks to shard over: tp {tp} leaves dp {dp}, cp {cp}",
       "use a smaller --tp", kParallelism},
      {"tp_divides_kv_heads",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block(
             [&](const BlockSpec& b) { return b.heads % c.tp != 0 || b.kv_heads % c.tp != 0; });
       },
       "tp {tp} does not divide the model's {heads} heads and {kv_heads} key/value heads",
       "use a --tp that divides both", kFsdp},
      {"cp_divides_sequence",
       [](const Problem& p, const Candidate& c) {
         return c.cp > 1 && p.workload.seq % (2 * c.cp) != 0;
       },
       "a sequence of {seq} is not two equal parts for each of cp {cp} ranks",
       "use a --seq that is a multiple of 2 x cp", kParallelism},
  };
}

std::vector<Rule> replica_rules() {
  return {
      {"replicas_per_node",
       [](const Problem& p, const Candidate& c) {
         return is(c, Engine::fsdp1) && c.hsdp > 1 && c.hsdp != p.cluster.nodes;
       },
       "FSDP1's hybrid sharding has one replica per node, and hsdp is {hsdp}",
       "use the knob engine=fsdp2, or as many replicas as nodes", kPlugins},
      {"replicas_need_fsdp",
       [](const Problem&, const Candidate& c) { return is(c, Engine::deepspeed) && c.hsdp > 1; },
       "Accelerate's DeepSpeed plug-in shards over all data ranks: hsdp {hsdp}",
       "use the knob engine=fsdp2, or --hsdp 1", kPlugins},
  };
}

std::vector<Rule> offload_rules() {
  return {
      {"optimizer_offload_needs_zero",
       [](const Problem&, const Candidate& c) {
         return is(c, Engine::deepspeed) && c.offload.optimizer && c.zero < 1;
       },
       "offload of the optimizer's states needs sharded ones, and zero is {zero}",
       "use --zero 1, 2 or 3, or --offload none", kPlugins},
      {"params_offload_needs_zero_three",
       [](const Problem&, const Candidate& c) {
         return is(c, Engine::deepspeed) && c.offload.params && c.zero != 3;
       },
       "offload of weights needs sharded ones, and zero is {zero}",
       "use --zero 3, or --offload without params", kPlugins},
      disk_needs_zero_three(kPlugins),
      no_activation_offload("an Accelerate YAML has no offload of activations", kPlugins),
  };
}

/// Without mixed precision FSDP leaves the weights' types as they are.
Rule fp32_updates_under_autocast() {
  Rule rule = fp32_updates(kFsdp);
  rule.broken = [broken = std::move(rule.broken)](const Problem& p, const Candidate& c) {
    return autocasts(c) && broken(p, c);
  };
  return rule;
}

std::vector<Rule> device_rules() {
  return {
      {"cpu_ranks_do_not_shard",
       [](const Problem& p, const Candidate& c) {
         return p.cluster.device.kind == DeviceKind::cpu && c.zero > 0 && !is(c, Engine::deepspeed);
       },
       "Accelerate switches FSDP on for accelerators only, and the device is {device}",
       "use --zero 0 on CPUs", kLaunch},
      {"recompute_with_fsdp",
       [](const Problem&, const Candidate& c) {
         return is(c, Engine::fsdp1) && c.recompute.kind == RecomputeKind::full && c.zero < 2;
       },
       "fsdp_activation_checkpointing is FSDP's, and zero is {zero}", "use --zero 2 or 3",
       kPlugins},
  };
}

}  // namespace

Engine engine_of(const Candidate& candidate) {
  return from_word<Engine>(knob_value(candidate, emitted_knobs(), kEngineKnob))
      .value_or(Engine::fsdp2);
}

bool is_fsdp1(const Candidate& candidate) {
  return candidate.zero >= 2 && engine_of(candidate) == Engine::fsdp1;
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs = [] {
    std::vector<Knob> knobs = module_knobs();
    knobs.insert(knobs.begin(),
                 {kEngineKnob, all_words<Engine>(),
                  "what shards: FSDP2 (DDP at zero 0), FSDP1 or Accelerate's DeepSpeed plug-in"});
    knobs.insert(knobs.begin() + 1, prefetch_knob());
    return knobs;
  }();
  return kKnobs;
}

std::vector<Rule> emit_rules() {
  std::vector<Rule> all{
      known_knobs(emitted_knobs(), kLaunch),
      trains_only(kLaunch),
      one_stage(kLaunch),
      no_expert_ranks(kParallelism),
      no_sequence_parallel(kParallelism),
      equal_stages(kLaunch),
      recompute_among({RecomputeKind::none, RecomputeKind::full}, kPlugins),
      precision_among({Precision::bf16, Precision::fp16, Precision::fp32}, kLaunch),
      replicas_divide_ranks(kParallelism),
      unless_deepspeed(offload_of_all_states(kFsdp)),
      fp32_updates_under_autocast(),
      prefetch_is_fsdp1s(is_fsdp1),
  };
  for (auto& group : {sharding_rules(), replica_rules(), offload_rules(), device_rules(),
                      module_rules(kPlugins)}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace planwright::targets::accelerate
