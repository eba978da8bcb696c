#include "launcher/targets/nanotron/traits.h"

#include "estimator/spec/axis_values.h"
#include "launcher/targets/nanotron/emit.h"
#include "launcher/targets/nanotron/log.h"
#include "launcher/targets/nanotron/rules.h"
#include "launcher/targets/nanotron/split.h"
#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets::nanotron {
namespace {

constexpr const char* kModel = "huggingface/nanotron src/nanotron/models/base.py @ 2411b02";
constexpr const char* kAccumulator =
    "huggingface/nanotron src/nanotron/optim/gradient_accumulator.py @ 2411b02";
constexpr const char* kZero = "huggingface/nanotron src/nanotron/optim/zero.py @ 2411b02";
constexpr const char* kTrainer =
    "huggingface/nanotron src/nanotron/trainer.py, DistributedDataParallel @ 2411b02";
constexpr const char* kGather =
    "huggingface/nanotron src/nanotron/distributed.py, all_gather_coalesced @ 2411b02";
constexpr const char* kFlatGather =
    "pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, allgather: the ranks' parts once "
    "more, in one tensor @ v2.5.0";
constexpr const char* kSegments =
    "pytorch c10/cuda/CUDACachingAllocator.cpp: a tensor larger than any that was freed gets a "
    "segment, and smaller ones later do not fill it @ v2.5.0";

std::int64_t storage_bytes(const PrecisionRecipe& r) { return bytes_of(r.storage); }
std::int64_t gradient_bytes(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t master_bytes(const PrecisionRecipe& r) { return r.master ? bytes_of(*r.master) : 0; }
std::int64_t state_bytes(const PrecisionRecipe& r) { return bytes_of(r.state); }
ShardedBy nothing(const Candidate&) { return ShardedBy::nothing; }
ShardedBy zero(const Candidate& c) {
  return c.zero == 1 ? ShardedBy::each_tensor : ShardedBy::nothing;
}

bool has_buckets(const Problem&, const Candidate& c) { return c.zero == 0 && c.dp > 1; }
bool gathers(const Problem&, const Candidate& c) { return c.zero == 1 && c.dp > 1; }

/// Gradients of a micro-batch are made in the weights' type and added to the fp32 ones when its
/// backward has ended. Those are whole on every rank, whatever is sharded.
std::vector<Holding> holdings() {
  using enum Account;
  using enum HoldingOf;
  constexpr Phase kLoad = Phase::load, kBack = Phase::backward, kStep = Phase::optimizer;
  std::vector<Holding> rows{
      // account     of       bytes each   copies sharded from to     when      source
      {parameters, trained, storage_bytes, 1, nothing, kLoad, kStep, nullptr, kModel},
      {gradients, trained, gradient_bytes, 1, nothing, kLoad, kStep, nullptr, kAccumulator},
      {gradients, trained, storage_bytes, 1, nothing, kBack, kBack, nullptr, kAccumulator},
      {gradients, trained, storage_bytes, 1, nothing, kLoad, kStep, has_buckets, kTrainer},
      {optimizer, trained, master_bytes, 1, zero, kLoad, kStep, nullptr, kAccumulator},
      {optimizer, trained, state_bytes, 2, zero, kLoad, kStep, nullptr, kZero},
      {communication, trained, storage_bytes, 1, zero, kStep, kStep, gathers, kGather},
      {communication, trained, storage_bytes, 1, nothing, kStep, kStep, gathers, kGather},
      {communication, trained, storage_bytes, 1, nothing, kStep, kStep, gathers, kFlatGather},
      {fragmentation, trained, storage_bytes, 1, nothing, kLoad, Phase::reduce, gathers, kSegments},
  };
  rows[2].grows = true;
  return rows;
}

std::optional<PrecisionRecipe> recipe(Precision precision) {
  using enum DType;
  if (precision != Precision::bf16) return std::nullopt;
  return PrecisionRecipe{bf16, bf16, fp32, fp32, fp32, {}};
}

/// helpers.py, _vocab_size_with_padding, with make_vocab_size_divisible_by 1.
std::int64_t padded_vocab(std::int64_t vocab, const Candidate& c) {
  return (vocab + c.tp - 1) / c.tp * c.tp;
}

SupportedAxes axes() {
  SupportedAxes axes;
  axes.tp = axes.pp = usual_degrees();
  axes.pp.push_back(2 * axes.pp.back());
  axes.zero = {0, 1};
  axes.sp = {false, true};
  axes.schedule = {Schedule::one_f_one_b, Schedule::gpipe};
  axes.recompute = {Recompute{}, {RecomputeKind::full, 0, {}}};
  axes.attention = {AttentionKernel::flash};
  return axes;
}

/// Sums of all gradients after the last backward, and with stage 0 beside it.
Sharding sharding(const Problem& problem, const Candidate& candidate) {
  Sharding sharding = flat_sharding(problem, candidate);
  sharding.made = problem.workload.recipe.storage;
  return sharding;
}

/// model.ddp_bucket_cap_mb 25, of bf16.
std::int64_t bucket_elements(const Candidate&) { return std::int64_t{25} * 1024 * 1024 / 2; }

/// Groups that something is sent in: all ranks, for barriers; data ranks, tensor ranks, stages; the
/// tensor ranks of all stages, for the gradients' norm; each neighbour that a stage sends to, a
/// middle one to two; the ends with a tied matrix. Sources: src/nanotron/parallel/context.py,
/// trainer.py, optim/clip_grads.py, parallel/pipeline_parallel/p2p.py, parallel/tied_parameters.py
/// @ 2411b02; pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp @ v2.5.0: a pair that sends
/// has a communicator of its own.
int communicators(const Problem& problem, const Candidate& c) {
  int groups = 1;
  for (const int degree : {c.tp, c.dp, c.pp}) groups += degree > 1 ? 1 : 0;
  if (c.tp > 1 && c.pp > 1) ++groups;
  if (c.pp > 1) groups += c.pp > 2 ? 2 : 1;
  if (c.pp > 1 && problem.model.tied_embeddings) ++groups;
  return groups;
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("nanotron", "0.4");
  traits.stand_in_kernels = false;
  traits.holdings = holdings();
  traits.rules = emit_rules();
  traits.knobs = emitted_knobs();
  traits.axes = axes();
  traits.kernels = [](DeviceKind) { return KernelSet::flash_attn; };
  traits.keeps_gathered = keeps_gathered;
  traits.stage_layers = stage_layers;
  traits.communicators = communicators;
  traits.recipe = recipe;
  traits.padded_vocab = padded_vocab;
  traits.sharding = sharding;
  traits.bucket_elements = bucket_elements;
  traits.overlaps = [](const Candidate& c) { return c.zero == 0; };
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

}  // namespace planwright::targets::nanotron
