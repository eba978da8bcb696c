#include "launcher/targets/deepspeed/rules.h"

#include "launcher/targets/shared/activations.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"

namespace planwright::targets::deepspeed {
namespace {

constexpr const char* kConfig = "deepspeedai/DeepSpeed deepspeed/runtime/config.py @ 0.19.8";
constexpr const char* kZeroConfig =
    "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py @ 0.19.8";
constexpr const char* kEngine = "deepspeedai/DeepSpeed deepspeed/runtime/engine.py @ 0.19.8";
constexpr const char* kPipeEngine =
    "deepspeedai/DeepSpeed deepspeed/runtime/pipe/engine.py @ 0.19.8";
constexpr const char* kAutoTp =
    "deepspeedai/DeepSpeed deepspeed/module_inject/tp_shard.py @ 0.19.8";
constexpr const char* kCheckpointing =
    "deepspeedai/DeepSpeed deepspeed/runtime/activation_checkpointing/config.py @ 0.19.8";

std::vector<Rule> offload_rules() {
  return {
      {"optimizer_offload_needs_zero",
       [](const Problem&, const Candidate& c) { return c.offload.optimizer && c.zero < 1; },
       "offload of the optimizer's states needs sharded ones, and zero is {zero}",
       "use --zero 1, 2 or 3, or --offload none", kZeroConfig},
      {"params_offload_needs_zero_three",
       [](const Problem&, const Candidate& c) { return c.offload.params && c.zero != 3; },
       "offload of weights needs sharded ones, and zero is {zero}",
       "use --zero 3, or --offload without params", kZeroConfig},
      disk_needs_zero_three(kZeroConfig),
      offloads_inputs_only("DeepSpeed", kCheckpointing),
      {"offloaded_optimizer_has_cpu_kernel",
       [](const Problem& p, const Candidate& c) {
         return c.offload.optimizer && p.workload.optimizer != OptimizerKind::adamw &&
                p.workload.optimizer != OptimizerKind::lion;
       },
       "DeepSpeed steps offloaded states with its own CPU Adam or Lion, not with {optimizer}",
       "use --optimizer adamw or lion, or --offload none", kEngine},
  };
}

std::vector<Rule> own_rules() {
  return {
      {"tp_divides_kv_heads",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block(
             [&](const BlockSpec& b) { return b.heads % c.tp != 0 || b.kv_heads % c.tp != 0; });
       },
       "tp {tp} does not divide the model's {heads} heads and {kv_heads} key/value heads, and "
       "AutoTP would give the ranks unequal parts",
       "use a --tp that divides both", kAutoTp},
      {"sixteen_bits_have_fp32_master",
       [](const Problem& p, const Candidate&) {
         return bytes_of(p.workload.recipe.storage) == 2 &&
                updated_type(p.workload.recipe) != DType::fp32;
       },
       "ZeRO keeps fp32 master weights beside 16-bit ones, and the plan does not",
       "use --master-weights on", kEngine},
  };
}

}  // namespace

std::int64_t reduce_bucket_elements(const Candidate& candidate) {
  return std::stoll(knob_value(candidate, emitted_knobs(), kReduceBucketKnob));
}

bool overlaps(const Candidate& candidate) {
  const std::string value = knob_value(candidate, emitted_knobs(), kOverlapKnob);
  return value == "auto" ? candidate.zero == 3 : value == "on";
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs{
      {kReduceBucketKnob,
       {"500000000", "200000000", "50000000"},
       "elements of the buffer in which gradients are reduced"},
      {kOverlapKnob,
       {"auto", "on", "off"},
       "whether gradients are reduced beside the backward pass, from a second buffer"}};
  return kKnobs;
}

std::vector<Rule> emit_rules() {
  std::vector<Rule> all{
      trains_only(kConfig),
      one_stage(kPipeEngine),
      one_context_rank(kConfig),
      no_expert_ranks(kConfig),
      no_sequence_parallel(kConfig),
      no_replicas(kConfig),
      equal_stages(kPipeEngine),
      recompute_among({RecomputeKind::none, RecomputeKind::full}, kCheckpointing),
      precision_among({Precision::bf16, Precision::fp16, Precision::fp32}, kConfig),
      known_knobs(emitted_knobs(), kZeroConfig),
  };
  for (auto& group : {own_rules(), offload_rules()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace planwright::targets::deepspeed
