#include "launcher/targets/megatron_deepspeed/traits.h"

#include "estimator/spec/axis_values.h"
#include "estimator/spec/model_features.h"
#include "estimator/spec/recompute_rules.h"
#include "launcher/targets/megatron_deepspeed/emit.h"
#include "launcher/targets/megatron_deepspeed/holdings.h"
#include "launcher/targets/megatron_deepspeed/log.h"
#include "launcher/targets/megatron_deepspeed/rules.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/megatron_family.h"
#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets::megatron_deepspeed {
namespace {

constexpr const char* kBlocks = "estimator/apex_block.h";
constexpr const char* kPipeModule =
    "microsoft/DeepSpeed deepspeed/runtime/pipe/module.py @ v0.5.10, "
    "activation_checkpoint_interval";

/// The engine reduces when all micro-batches are done, and waits for it.
Sharding sharding(const Problem& problem, const Candidate& c) {
  const DType type = problem.workload.recipe.compute;
  Sharding sharding{.gathered = type, .made = type, .reduced = problem.workload.recipe.gradient};
  if (c.zero > 0) sharding.gathering = Gathering::after_step;
  return sharding;
}

SupportedAxes axes() {
  SupportedAxes axes;
  axes.tp = axes.pp = usual_degrees();
  axes.zero = {0, 1};
  axes.recompute = {Recompute{}, {RecomputeKind::full, 0, {}}};
  for (const int k : {2, 4}) axes.recompute.push_back({RecomputeKind::chunk, k, {}});
  axes.attention = {AttentionKernel::eager, AttentionKernel::flash};
  return axes;
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("megatron-deepspeed", "0.5.10");
  traits.holdings = holdings();
  traits.rules = joined({emit_rules(),
                         estimate_rules({}, kBlocks),
                         recompute_rules(kPipeModule),
                         {estimable_types(megatron_recipe, true)}});
  traits.axes = axes();
  // megatron/arguments.py, and tokenizer/tokenizer.py: _vocab_size_with_padding.
  traits.recipe = megatron_recipe;
  traits.padded_vocab = megatron_padded_vocab;
  traits.kernels = [](DeviceKind kind) {
    return kind == DeviceKind::cuda ? KernelSet::apex : KernelSet::composed;
  };
  traits.bucket_elements = bucket_elements;
  traits.overlaps = [](const Candidate&) { return false; };
  traits.sharding = sharding;
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() {
  return {.traits = traits(), .emit = emit, .has_script = true, .logs = {log_format()}};
}

}  // namespace planwright::targets::megatron_deepspeed
