#include "launcher/targets/builtin/traits.h"

#include "estimator/spec/axis_values.h"
#include "launcher/targets/builtin/rules.h"

namespace planwright::targets::builtin {
namespace {

constexpr const char* kSource = "docs/runtime.md, States";

std::int64_t storage_bytes(const PrecisionRecipe& r) { return bytes_of(r.storage); }
std::int64_t gradient_bytes(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t master_bytes(const PrecisionRecipe& r) { return r.master ? bytes_of(*r.master) : 0; }
std::int64_t state_bytes(const PrecisionRecipe& r) { return bytes_of(r.state); }
std::int64_t table_bytes(const PrecisionRecipe& r) {
  return bytes_of(accumulation_type(r.compute));
}
std::int64_t counter_bytes(const PrecisionRecipe&) { return 4; }
std::int64_t loss_scale_bytes(const PrecisionRecipe&) { return 8; }

ShardedBy nothing(const Candidate&) { return ShardedBy::nothing; }
template <int kStage>
ShardedBy zero(const Candidate& c) {
  return c.zero >= kStage ? ShardedBy::data_ranks : ShardedBy::nothing;
}

bool has_master(const Problem& p, const Candidate&) { return p.workload.recipe.master.has_value(); }
bool is_adamw(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::adamw;
}
bool has_one_moment(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::sgd || p.workload.optimizer == OptimizerKind::lion;
}
bool scales_loss(const Problem& p, const Candidate&) {
  return p.workload.recipe.compute == DType::fp16;
}
bool is_adafactor(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::adafactor;
}

std::vector<Holding> holdings() {
  using enum Account;
  using enum HoldingOf;
  constexpr Phase kFrom = Phase::load;
  constexpr Phase kTo = Phase::optimizer;
  return {
      // account     of               bytes each     copies sharded from   to   when        source
      {parameters, flat_parameters, storage_bytes, 1, zero<3>, kFrom, kTo, nullptr, kSource},
      {parameters, frozen_parameters, storage_bytes, 1, zero<3>, kFrom, kTo, nullptr, kSource},
      {parameters, rope_table, table_bytes, 1, nothing, kFrom, kTo, nullptr, kSource},
      {gradients, flat_parameters, gradient_bytes, 1, zero<2>, kFrom, kTo, nullptr, kSource},
      {optimizer, flat_parameters, master_bytes, 1, zero<1>, kFrom, kTo, has_master, kSource},
      {optimizer, flat_parameters, state_bytes, 2, zero<1>, kFrom, kTo, is_adamw, kSource},
      {optimizer, flat_parameters, state_bytes, 1, zero<1>, kFrom, kTo, has_one_moment, kSource},
      {optimizer, factored_moments, state_bytes, 1, nothing, kFrom, kTo, is_adafactor, kSource},
      {optimizer, step_counters, counter_bytes, 1, nothing, kFrom, kTo, is_adamw, kSource},
      {optimizer, step_counters, loss_scale_bytes, 1, nothing, kFrom, kTo, scales_loss, kSource},
  };
}

/// Every kind; of those that count blocks a few counts far apart, which a free axis takes.
std::vector<Recompute> recomputes() {
  using enum RecomputeKind;
  std::vector<Recompute> all{
      Recompute{}, {selective, 0, {}}, {full, 0, {}}, {chunk, 2, {}}, {chunk, 4, {}}};
  all.push_back({alternate, 2, {}});
  for (const int k : {1, 2, 4, 8, 16, 32, 64}) all.push_back({first, k, {}});
  return all;
}

SupportedAxes axes() {
  SupportedAxes axes;
  axes.tp = axes.pp = axes.hsdp = usual_degrees();
  axes.zero = {0, 1, 2, 3};
  axes.sp = {false, true};
  axes.schedule = {Schedule::gpipe, Schedule::one_f_one_b};
  axes.recompute = recomputes();
  axes.attention = {AttentionKernel::flash, AttentionKernel::eager};
  axes.loss = {LossKernel::plain, LossKernel::fused, LossKernel::chunked};
  return axes;
}

TargetTraits make_traits() {
  TargetTraits traits;
  traits.name = "builtin";
  traits.version = "1";
  traits.revision = 3;
  traits.holdings = holdings();
  traits.rules = rules();
  traits.knobs = {{kBucketKnob,
                   {std::to_string(kDefaultBucketElements), "1048576", "16777216"},
                   "elements after which a gradient bucket is closed and reduced"},
                  {kOverlapKnob,
                   {"on", "off"},
                   "whether the data ranks' collectives are carried out beside the passes"}};
  traits.axes = axes();
  traits.recipe = recipe;
  traits.kernels = [](DeviceKind kind) {
    return kind == DeviceKind::cpu ? KernelSet::in_place : KernelSet::composed;
  };
  traits.transport = [](DeviceKind kind) {
    return kind == DeviceKind::cpu ? Transport::gloo : Transport::nccl;
  };
  traits.bucket_elements = bucket_elements;
  traits.overlaps = overlaps;
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

}  // namespace planwright::targets::builtin
