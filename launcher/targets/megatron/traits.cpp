#include "launcher/targets/megatron/traits.h"

#include <algorithm>

#include "estimator/spec/axis_values.h"
#include "estimator/spec/flat_layout.h"
#include "estimator/spec/model_features.h"
#include "estimator/spec/recompute_rules.h"
#include "launcher/targets/megatron/emit.h"
#include "launcher/targets/megatron/log.h"
#include "launcher/targets/megatron/recompute_rules.h"
#include "launcher/targets/megatron/rules.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/megatron_family.h"
#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets::megatron {
namespace {

constexpr const char* kBuffer =
    "NVIDIA/Megatron-LM megatron/core/distributed/param_and_grad_buffer.py @ core_v0.14.0";
constexpr const char* kOptimizer =
    "NVIDIA/Megatron-LM megatron/core/optimizer/distrib_optimizer.py @ core_v0.14.0";
constexpr const char* kDummies =
    "NVIDIA/TransformerEngine transformer_engine/pytorch/module/base.py @ v2.11";
constexpr const char* kNarrow =
    "NVIDIA/TransformerEngine transformer_engine/pytorch/module/base.py, get_weight_workspace @ "
    "v2.11; NVIDIA/Megatron-LM megatron/core/extensions/transformer_engine.py, "
    "is_first_microbatch @ core_v0.14.0";
constexpr const char* kCopies =
    "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer.py, _copy_model_grads_to_main_grads @ "
    "core_v0.14.0";
constexpr const char* kBlock =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py @ core_v0.14.0";

constexpr const char* kFsdp =
    "NVIDIA/Megatron-LM megatron/core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py, "
    "ParamAndGradBuffer @ core_v0.16.0";
/// Elements that are reduced at a time, and twice those that are gathered. Source:
/// NVIDIA/Megatron-LM megatron/core/distributed/fsdp/src/megatron_fsdp/megatron_fsdp.py,
/// suggested_communication_unit_size @ core_v0.16.0.
constexpr std::int64_t kCommunicationUnit = 1'000'000'000;

std::int64_t storage_bytes(const PrecisionRecipe& r) { return bytes_of(r.storage); }
std::int64_t gradient_bytes(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t master_bytes(const PrecisionRecipe& r) { return r.master ? bytes_of(*r.master) : 0; }
std::int64_t state_bytes(const PrecisionRecipe& r) { return bytes_of(r.state); }
ShardedBy nothing(const Candidate&) { return ShardedBy::nothing; }
ShardedBy distributed_optimizer(const Candidate& c) {
  return c.zero >= 1 ? ShardedBy::data_ranks : ShardedBy::nothing;
}
ShardedBy optim_grads(const Candidate& c) {
  return c.zero >= 2 ? ShardedBy::data_ranks : ShardedBy::nothing;
}
ShardedBy optim_grads_params(const Candidate& c) {
  return c.zero == 3 ? ShardedBy::data_ranks : ShardedBy::nothing;
}

/// Gradients of another type than the master's are copied for the step.
bool copies_gradients(const Problem& p, const Candidate&) {
  const PrecisionRecipe& recipe = p.workload.recipe;
  return recipe.master && recipe.gradient != *recipe.master;
}

bool sums_wgrad(const Problem&, const Candidate& c) { return te_modules(c).sums_wgrad; }

/// Whether the matrices of blocks have a copy in 8 bits in place of another one.
bool has_narrow_weights(const Problem&, const Candidate& c) { return te_modules(c).fp8_weights; }
bool has_wide_weights(const Problem& p, const Candidate& c) { return !has_narrow_weights(p, c); }
bool is_wide(const FlatTensor& tensor) { return !tensor.tensor.linear; }
bool is_fp8(const Problem& p, const Candidate&) { return p.workload.precision == Precision::fp8; }
/// From the first micro-batch on.
bool caches_weights(const Problem& p, const Candidate& c) {
  return is_fp8(p, c) && has_wide_weights(p, c);
}
std::int64_t one_byte(const PrecisionRecipe&) { return 1; }

/// Megatron-FSDP. Blocks are its units; what embeds and the head are gathered with the first of
/// them and released after the step.
Sharding fsdp_sharding(const Problem& problem, const Candidate& c) {
  Sharding sharding = flat_sharding(problem, c);
  sharding.queued_elements = kCommunicationUnit;
  if (c.zero < 3) return sharding;
  sharding.ahead_elements = kCommunicationUnit / 2;
  sharding.keeps_outer = true;
  return sharding;
}

/// Of blocks of 32 the new weights are gathered as they are computed with. The few that are wide
/// are taken to be as narrow as the others.
Sharding sharding(const Problem& problem, const Candidate& c) {
  if (c.zero >= 2) return fsdp_sharding(problem, c);
  Sharding sharding = flat_sharding(problem, c);
  const TeModules te = te_modules(c);
  if (te.fp8_weights && te.fp8 != Fp8Recipe::mxfp8) sharding.gathered = DType::fp8;
  return sharding;
}

/// Products in 8 bits change nothing of what is kept in other types.
std::optional<PrecisionRecipe> recipe(Precision precision) {
  return megatron_recipe(precision == Precision::fp8 ? Precision::bf16 : precision);
}

bool has_master(const Problem& p, const Candidate&) { return p.workload.recipe.master.has_value(); }

std::vector<Holding> holdings() {
  using enum Account;
  using enum HoldingOf;
  constexpr Phase kFrom = Phase::load, kTo = Phase::optimizer, kForward = Phase::forward;
  const auto sharded = distributed_optimizer;
  return {
      // account     of               bytes each     copies sharded from   to   when        source
      {parameters, flat_parameters, storage_bytes, 1, optim_grads_params, kFrom, kTo,
       has_wide_weights, kFsdp},
      {parameters, trained, storage_bytes, 1, nothing, kFrom, kTo, has_narrow_weights, kBuffer,
       is_wide},
      {parameters, narrow_copies, one_byte, 1, nothing, kFrom, kTo, has_narrow_weights, kNarrow},
      {parameters, narrow_copies, one_byte, 1, nothing, kForward, kTo, caches_weights, kNarrow},
      {gradients, flat_parameters, gradient_bytes, 1, optim_grads, kFrom, kTo, nullptr, kFsdp},
      {optimizer, flat_parameters, master_bytes, 1, sharded, kFrom, kTo, has_master, kOptimizer},
      {optimizer, flat_parameters, state_bytes, 2, sharded, kFrom, kTo, nullptr, kOptimizer},
      {gradients, flat_parameters, master_bytes, 1, sharded, Phase::optimizer, kTo,
       copies_gradients, kCopies},
      {workspace, distinct_matrices, storage_bytes, 1, nothing, kForward, kTo, sums_wgrad,
       kDummies},
  };
}

/// Sets of modules that a search tries. Source: the ones that most of NVIDIA-NeMo/Megatron-Bridge
/// src/megatron/bridge/perf_recipes @ v0.6.0 give for experts and latent attention.
const std::vector<std::string> kModuleSets[] = {{"mlp"},
                                                {"moe"},
                                                {"mla_up_proj"},
                                                {"layernorm", "moe_act"},
                                                {"layernorm", "mla_up_proj", "moe_act"}};

/// What can be written and not yet estimated is not among the values.
SupportedAxes axes() {
  SupportedAxes axes;
  axes.tp = axes.pp = axes.cp = axes.ep = axes.etp = usual_degrees();
  axes.zero = {0, 1, 2, 3};
  axes.sp = {false, true};
  axes.recompute = {Recompute{}, {RecomputeKind::full, 0, {}}, {RecomputeKind::selective, 0, {}}};
  for (const auto& modules : kModuleSets) {
    axes.recompute.push_back({RecomputeKind::selective, 0, modules});
  }
  axes.recompute_modules = recomputed_module_names();
  for (const int k : {2, 4}) axes.recompute.push_back({RecomputeKind::chunk, k, {}});
  for (const int k : {1, 2, 4, 8}) axes.recompute.push_back({RecomputeKind::first, k, {}});
  axes.attention = {AttentionKernel::flash, AttentionKernel::eager};
  axes.loss = {LossKernel::plain, LossKernel::fused};
  axes.offload = {Offload{}, {.activations = true}};
  axes.vpp = {1, 2, 3, 4, 5, 6, 8, 10, 12};
  axes.schedule = {Schedule::one_f_one_b, Schedule::interleaved};
  for (const char* axis : {"hsdp", "offload"}) {
    axes.fixes[axis] = "leave it out: it can be written, but this version cannot estimate it";
  }
  return axes;
}

std::int64_t bucket_elements(const Candidate& c) {
  return std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * c.dp * c.cp);
}

/// Source: NVIDIA/Megatron-LM megatron/core/pipeline_parallel/fine_grained_activation_offload.py,
/// ChunkOffloadHandler, and --min-offloaded-tensor-size @ core_v0.16.0: page-locked, on streams of
/// their own.
ActivationOffload activation_offload(const Problem& problem, const Candidate& c) {
  return {.leaving = Leaving::modules,
          .modules = offloaded_modules(problem, c),
          .least_elements = 1024 * 1024};
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("megatron", "0.14.0");
  traits.stand_in_kernels = false;
  traits.holdings = holdings();
  traits.rules = joined({emit_rules(),
                         estimate_rules({ModelFeature::experts, ModelFeature::latent_attention},
                                        "estimator/te_block.cpp"),
                         estimable_layouts(),
                         estimable_modules(),
                         estimable_optimizers({OptimizerKind::adamw}),
                         recompute_rules(kBlock),
                         {estimable_types(recipe, true)}});
  traits.knobs = emitted_knobs();
  traits.axes = axes();
  traits.kernels = [](DeviceKind) { return KernelSet::transformer_engine; };
  // megatron/training/arguments.py, and tokenizer: --make-vocab-size-divisible-by.
  traits.recipe = recipe;
  traits.padded_vocab = megatron_padded_vocab;
  traits.experts_apart = true;
  traits.exchange = exchange;
  traits.te_modules = te_modules;
  traits.activation_offload = activation_offload;
  traits.bucket_elements = bucket_elements;
  traits.sharding = sharding;
  traits.overlaps = overlaps;
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

}  // namespace planwright::targets::megatron
