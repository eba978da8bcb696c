#include "estimator/step_shape.h"

#include "estimator/devices.h"
#include "estimator/spec/model_part.h"
#include "estimator/spec/recipes.h"

namespace planwright::estimator {
namespace {

/// By the data sheet; 1 where that is not known.
double product_time(const Problem& problem) {
  const DeviceSpec& device = problem.cluster.device;
  const auto wide = stated_peak(device, problem.workload.recipe.compute);
  const auto narrow = stated_peak(device, product_type(problem.workload));
  return wide && narrow ? wide->value / narrow->value : 1;
}

/// As in a square matrix.
double stored_weight(const Problem& problem) {
  const auto& format = problem.workload.serving.weights;
  if (!format) return 0;
  const std::int64_t h = problem.model.hidden;
  return static_cast<double>(stored_bytes(*format, h, h).value) / static_cast<double>(h * h);
}

}  // namespace

TeModules te_modules(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate) {
  const bool runs = traits.te_modules != nullptr;
  TeModules te = runs ? traits.te_modules(candidate) : TeModules{};
  if (runs && product_type(problem.workload) == DType::fp8) return te;
  te.fp8 = Fp8Recipe::none;
  te.fp8_weights = false;
  return te;
}

ActivationOffload activation_offload(const Problem& problem, const TargetTraits& traits,
                                     const Candidate& candidate) {
  const bool offloads = candidate.offload.activations && traits.activation_offload;
  return offloads ? traits.activation_offload(problem, candidate) : ActivationOffload{};
}

StepShape step_shape(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate) {
  const KernelSet kernels = traits.kernels(problem.cluster.device.kind);
  return {
      .batch = candidate.micro_batch,
      .seq = problem.workload.seq,
      .cp = candidate.cp,
      .hidden = problem.model.hidden,
      .vocab = vocab_share(problem.model.vocab, candidate.tp),
      .tp = candidate.tp,
      .sp = candidate.sp,
      .ep = candidate.ep,
      .etp = candidate.etp,
      .experts = problem.model.has_experts(),
      .exchange = traits.exchange ? traits.exchange(candidate) : Exchange::ring,
      .threads = problem.cluster.threads_per_rank,
      .compute = problem.workload.recipe.compute,
      .gradient = traits.sharding(problem, candidate).made,
      .product = product_type(problem.workload),
      .rotary = problem.model.positions == Positions::rotary,
      .attention = candidate.attention,
      .loss = candidate.loss,
      .again = recomputed_modules(candidate.recompute),
      .saves_ops = candidate.recompute.kind == RecomputeKind::op,
      .hidden_dropout = problem.workload.hidden_dropout > 0,
      .attention_dropout = problem.workload.attention_dropout > 0,
      .lora = problem.model.lora,
      .kernels = kernels,
      .modules = traits.modules ? traits.modules(problem, candidate) : HfModules{},
      .stored_weight = stored_weight(problem),
      .keeps_gathered = traits.keeps_gathered != nullptr && traits.keeps_gathered(candidate),
      .te = te_modules(problem, traits, candidate),
      .product_time = product_time(problem),
      .activations = activation_offload(problem, traits, candidate),
      .torch_stages = kernels == KernelSet::torch_modules && candidate.pp > 1,
      .device = problem.cluster.device.kind,
  };
}

bool makes_output_again(const StepShape& s) {
  switch (s.kernels) {
    case KernelSet::transformer_engine:
    case KernelSet::flash_attn:
    case KernelSet::apex:
      return true;
    case KernelSet::transformers:
      return s.modules.reentrant;
    case KernelSet::in_place:
    case KernelSet::composed:
    case KernelSet::litgpt:
    case KernelSet::torch_modules:
      return false;
  }
  return false;
}

Tensor hidden_rows(const StepShape& s, const char* name) { return {name, s.local_unit()}; }

Tensor whole_rows(const StepShape& s) {
  return {"whole", s.sp ? s.e() * s.tokens() * s.hidden : 0, Account::communication};
}

Tensor token_ids(const StepShape& s, const char* name) { return {name, 8 * s.tokens()}; }

Tensor norm_stats(const StepShape& s, NormKind norm, const char* name) {
  const std::int64_t numbers = norm == NormKind::layer_norm ? 2 : 1;  // mean, reciprocal deviation
  return {name, numbers * s.c() * s.local_tokens()};
}

}  // namespace planwright::estimator
