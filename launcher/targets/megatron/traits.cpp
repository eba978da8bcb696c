#include "launcher/targets/megatron/traits.h"

#include "estimator/spec/axis_values.h"
#include "estimator/spec/error.h"
#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets::megatron {
namespace {

constexpr const char* kBuffer = "megatron/core/distributed/param_and_grad_buffer.py";
constexpr const char* kOptimizer = "megatron/core/optimizer/distrib_optimizer.py";
constexpr const char* kDummies = "TransformerEngine transformer_engine/pytorch/module/base.py";

std::int64_t storage_bytes(const PrecisionRecipe& r) { return bytes_of(r.storage); }
std::int64_t gradient_bytes(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t master_bytes(const PrecisionRecipe& r) { return r.master ? bytes_of(*r.master) : 0; }
std::int64_t state_bytes(const PrecisionRecipe& r) { return bytes_of(r.state); }
ShardedBy nothing(const Candidate&) { return ShardedBy::nothing; }
ShardedBy distributed_optimizer(const Candidate& c) {
  return c.zero >= 1 ? ShardedBy::data_ranks : ShardedBy::nothing;
}

bool has_master(const Problem& p, const Candidate&) { return p.workload.recipe.master.has_value(); }

std::vector<Holding> holdings() {
  using enum Account;
  using enum HoldingOf;
  constexpr Phase kFrom = Phase::load, kTo = Phase::optimizer, kForward = Phase::forward;
  const auto sharded = distributed_optimizer;
  return {
      // account     of               bytes each     copies sharded from   to   when        source
      {parameters, flat_parameters, storage_bytes, 1, nothing, kFrom, kTo, nullptr, kBuffer},
      {gradients, flat_parameters, gradient_bytes, 1, nothing, kFrom, kTo, nullptr, kBuffer},
      {optimizer, flat_parameters, master_bytes, 1, sharded, kFrom, kTo, has_master, kOptimizer},
      {optimizer, flat_parameters, state_bytes, 2, sharded, kFrom, kTo, nullptr, kOptimizer},
      {workspace, distinct_matrices, storage_bytes, 1, nothing, kForward, kTo, nullptr, kDummies},
  };
}

/// megatron/training/arguments.py: gradients of bf16 are summed and reduced in fp32, those of fp16
/// in fp16.
std::optional<PrecisionRecipe> recipe(Precision precision) {
  using enum DType;
  switch (precision) {
    case Precision::fp32:
      return PrecisionRecipe{};
    case Precision::bf16:
      return PrecisionRecipe{bf16, bf16, fp32, fp32, fp32, {}};
    case Precision::fp16:
      return PrecisionRecipe{fp16, fp16, fp16, fp32, fp32, {}};
    default:
      return std::nullopt;
  }
}

/// megatron/training/tokenizer, --make-vocab-size-divisible-by: a multiple of 128 on each rank.
std::int64_t padded_vocab(std::int64_t vocab, const Candidate& c) {
  const std::int64_t multiple = std::int64_t{128} * c.tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("megatron", "core 0.14.0");
  traits.stand_in_kernels = false;
  traits.holdings = holdings();
  traits.axes.tp = traits.axes.pp = usual_degrees();
  traits.axes.cp = traits.axes.ep = traits.axes.etp = usual_degrees();
  traits.axes.zero = {0, 1};
  traits.axes.sp = {false, true};
  traits.axes.recompute = {Recompute{}, {RecomputeKind::full, 0, {}}};
  for (const int k : {2, 4}) traits.axes.recompute.push_back({RecomputeKind::chunk, k, {}});
  for (const int k : {1, 2, 4, 8}) traits.axes.recompute.push_back({RecomputeKind::first, k, {}});
  traits.axes.attention = {AttentionKernel::flash, AttentionKernel::eager};
  traits.axes.loss = {LossKernel::plain, LossKernel::fused};
  traits.kernels = [](DeviceKind) { return KernelSet::transformer_engine; };
  traits.recipe = recipe;
  traits.padded_vocab = padded_vocab;
  traits.experts_apart = true;
  traits.knobs = {{"cp_comm_type",
                   {"p2p", "a2a"},
                   "how ranks that have a part of a sequence each attend to all of it"}};
  traits.exchange = [](const Candidate& c) {
    const bool set = !c.knobs.empty() && c.knobs.front().second == "a2a";
    return set ? Exchange::all_to_all : Exchange::ring;
  };
  traits.bucket_elements = [](const Candidate&) { return std::int64_t{40000000}; };
  traits.overlaps = [](const Candidate&) { return false; };
  return traits;
}

launcher::LaunchConfig emit(const launcher::EmitRequest&) { return {}; }

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() { return {.traits = traits(), .emit = emit}; }

}  // namespace planwright::targets::megatron
