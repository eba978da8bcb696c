#include "launcher/targets/pytorch/traits.h"

#include "estimator/spec/model_features.h"
#include "launcher/targets/pytorch/emit.h"
#include "launcher/targets/pytorch/log.h"
#include "launcher/targets/pytorch/rules.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/torch_states.h"

namespace planwright::targets::pytorch {
namespace {

constexpr const char* kModules = "estimator/lit_block.h";
constexpr const char* kRope = "Lightning-AI/litgpt litgpt/model.py @ v0.5.9, rope_cache";

bool shards(const Candidate& c) { return c.zero == 3; }

/// no_backward_sync in all micro-batches but the last: a sharded model's gradients are then whole
/// on every rank. Source: Lightning-AI/litgpt litgpt/pretrain.py @ v0.5.9.
constexpr TorchUse kUse{.defers = true, .reduces_narrow = true, .fsdp1 = shards, .litgpt = true};

/// bf16 is Fabric's "bf16-true", what litgpt's configurations have; fp16 its "16-mixed".
std::optional<PrecisionRecipe> recipe(Precision precision) {
  using enum DType;
  if (precision == Precision::bf16) return PrecisionRecipe{bf16, bf16, bf16, std::nullopt, bf16};
  const bool known = precision == Precision::fp16 || precision == Precision::fp32;
  return known ? torch_recipe(precision) : std::nullopt;
}

/// All of the type that is computed in, or fp32 under autocast.
Rule estimable_recipes() {
  return {"estimates_types",
          [](const Problem& p, const Candidate&) {
            const PrecisionRecipe& asked = p.workload.recipe;
            const DType one = asked.compute;
            const PrecisionRecipe narrow{one, one, one, std::nullopt, one};
            return asked != narrow && asked != torch_recipe(p.workload.precision);
          },
          "a plain loop keeps weights, gradients and states in one type, {precision} or fp32",
          "leave out --grad-dtype and --master-weights; --state-dtype is the type of all three",
          "Lightning-AI/pytorch-lightning src/lightning/fabric/plugins/precision @ 2.1.0"};
}

HfModules modules(const Problem& problem, const Candidate& c) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  const bool old = litgpt_of(c) == LitgptVersion::v0_4;
  HfModules m;
  m.weights = m.norms = m.stream = m.adapters = updated_type(recipe);
  m.autocast = recipe.compute != updated_type(recipe);
  m.on_accelerator = problem.cluster.device.kind == DeviceKind::cuda;
  m.adapter_dropout = drops_adapter_inputs(c);
  m.quantised = m.quantised_head = m.unpacks_through_half = problem.workload.job == Job::qlora;
  m.keeps_quantised_inputs = old;  // it has bitsandbytes 0.42
  m.interleaved_qkv = old;
  m.capped_logits = problem.model.logit_cap;
  m.logit_rows = logit_rows(problem.workload.job);
  return m;
}

/// Cosines and sines of the whole head, in fp32.
Holding rotary_table() {
  return {Account::activations,
          HoldingOf::rope_table,
          [](const PrecisionRecipe&) -> std::int64_t { return 4; },
          2,
          nullptr,
          Phase::load,
          Phase::optimizer,
          nullptr,
          kRope};
}

std::vector<Rule> rules() {
  using enum ModelFeature;
  return joined(
      {emit_rules(),
       estimate_rules({norm_places, partial_rotation, capped_logits, activations, head_parts},
                      kModules),
       estimable_optimizers({OptimizerKind::adamw, OptimizerKind::lion, OptimizerKind::sgd,
                             OptimizerKind::adafactor}),
       {estimable_recipes()}});
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("pytorch", "2.11.0");
  traits.holdings = torch_holdings(kUse);
  traits.holdings.push_back(rotary_table());
  traits.rules = rules();
  traits.knobs = emitted_knobs();
  traits.axes.zero = {0, 3};
  traits.axes.attention = {AttentionKernel::flash};
  traits.recipe = recipe;
  traits.states_like_weights = true;
  traits.kernels = [](DeviceKind kind) {
    return kind == DeviceKind::cuda ? KernelSet::litgpt : KernelSet::composed;
  };
  traits.modules = modules;
  traits.bucket_elements = [](const Candidate&) { return ddp_bucket_elements(25); };
  traits.overlaps = [](const Candidate& c) { return !shards(c); };
  traits.sharding = [](const Problem& problem, const Candidate& c) {
    return torch_sharding(kUse, problem, c);
  };
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() { return {.traits = traits(), .emit = emit, .logs = {log_format()}}; }

}  // namespace planwright::targets::pytorch
