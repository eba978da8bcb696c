#include "launcher/targets/deepspeed/holdings.h"

#include <algorithm>
#include <iterator>

#include "estimator/spec/flat_layout.h"
#include "estimator/spec/rank_grid.h"
#include "launcher/targets/deepspeed/rules.h"

namespace planwright::targets::deepspeed {
namespace {

constexpr const char* kZero12 =
    "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py @ 0.19.8";
constexpr const char* kZero3 = "deepspeedai/DeepSpeed deepspeed/runtime/zero/stage3.py @ 0.19.8";
constexpr const char* kCoalesced =
    "deepspeedai/DeepSpeed deepspeed/runtime/comm/coalesced_collectives.py @ 0.19.8";
constexpr const char* kOffload =
    "deepspeedai/DeepSpeed deepspeed/runtime/zero/parameter_offload.py @ 0.19.8";
constexpr const char* kFused =
    "deepspeedai/DeepSpeed deepspeed/runtime/fp16/fused_optimizer.py @ 0.19.8";
constexpr const char* kUnfused =
    "deepspeedai/DeepSpeed deepspeed/runtime/fp16/unfused_optimizer.py @ 0.19.8";
constexpr const char* kBf16 = "deepspeedai/DeepSpeed deepspeed/runtime/bf16_optimizer.py @ 0.19.8";
constexpr const char* kEngine = "deepspeedai/DeepSpeed deepspeed/runtime/engine.py @ 0.19.8";
constexpr const char* kAdam = "deepspeedai/DeepSpeed deepspeed/ops/adam/fused_adam.py @ 0.19.8";
constexpr const char* kTorchAdam = "pytorch/pytorch torch/optim/adam.py @ v2.11.0";
constexpr const char* kSwapper =
    "deepspeedai/DeepSpeed deepspeed/runtime/swap_tensor/optimizer_utils.py @ 0.19.8";
constexpr const char* kParamSwapper =
    "deepspeedai/DeepSpeed deepspeed/runtime/swap_tensor/partitioned_param_swapper.py @ 0.19.8";
constexpr const char* kLion = "deepspeedai/DeepSpeed deepspeed/ops/lion/fused_lion.py @ 0.19.8";

/// Elements of zero 0's bucket: MEMORY_OPT_ALLREDUCE_SIZE of engine.py.
constexpr std::int64_t kPlainBucket = 500'000'000;
/// As zero_optimization (config.h) writes them.
constexpr std::int64_t kSubGroup = 1'000'000'000;
constexpr std::int64_t kPersistent = 100'000;
constexpr std::int64_t kReuse = 1'000'000'000;
/// Of offload to a disk, which zero_optimization leaves at DeepSpeed's defaults. Source:
/// deepspeed/runtime/zero/offload_config.py: buffer_count of each, max_in_cpu, buffer_size.
constexpr std::int64_t kStateBuffers = 4, kWeightBuffers = 5;
constexpr std::int64_t kWeightsInMemory = 1'000'000'000, kWeightBuffer = 100'000'000;

constexpr Phase kLoad = Phase::load;
constexpr Phase kForward = Phase::forward;
constexpr Phase kBackward = Phase::backward;
constexpr Phase kReduce = Phase::reduce;
constexpr Phase kEnd = Phase::optimizer;

std::int64_t weight(const PrecisionRecipe& r) { return bytes_of(r.compute); }
std::int64_t sum(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t stepped(const PrecisionRecipe& r) { return bytes_of(r.master.value_or(r.compute)); }
std::int64_t state(const PrecisionRecipe& r) { return bytes_of(r.state); }
std::int64_t two_states(const PrecisionRecipe& r) { return 2 * bytes_of(r.state); }
std::int64_t scalar(const PrecisionRecipe&) { return 4; }
std::int64_t state_buffers(const PrecisionRecipe& r) { return kStateBuffers * stepped(r); }
std::int64_t weight_buffers(const PrecisionRecipe& r) {
  return kWeightBuffers * kWeightBuffer * weight(r);
}

Home home_of(bool offloaded, OffloadTo to) {
  if (!offloaded) return Home::device;
  return to == OffloadTo::nvme ? Home::disk : Home::host;
}
Home weights_home(const Candidate& c) { return home_of(c.offload.params, c.offload.to); }
Home states_home(const Candidate& c) { return home_of(c.offload.optimizer, c.offload.to); }
/// What stays in memory whatever the states are kept on.
Home beside_states(const Candidate& c) { return c.offload.optimizer ? Home::host : Home::device; }
Home on_host(const Candidate&) { return Home::host; }

ShardedBy whole(const Candidate&) { return ShardedBy::nothing; }
ShardedBy flat(const Candidate&) { return ShardedBy::data_ranks; }
ShardedBy tensors(const Candidate&) { return ShardedBy::each_tensor; }
ShardedBy with_three(const Candidate& c) { return c.zero == 3 ? tensors(c) : whole(c); }
ShardedBy with_one(const Candidate& c) {
  return c.zero == 0 ? whole(c) : c.zero == 3 ? tensors(c) : flat(c);
}

/// What a row's condition looks at.
struct Case {
  const Problem& problem;
  const Candidate& candidate;
  PrecisionRecipe types;

  bool at(int zero) const { return candidate.zero == zero; }
  bool narrow() const { return bytes_of(types.compute) == 2; }
  bool wide_sums() const { return types.gradient != types.compute; }
  bool cuda() const { return problem.cluster.device.kind == DeviceKind::cuda; }
  bool accumulates() const { return accumulation(problem, candidate) > 1; }
  /// Gradients are reduced before the backward has ended.
  bool fills_bucket() const {
    return parameter_counts(problem.model).trainable > reduce_bucket_elements(candidate);
  }
  bool has(OptimizerKind kind) const { return problem.workload.optimizer == kind; }
  /// bf16 that is summed in fp32 has a class of its own.
  bool in_bf16_optimizer() const {
    return at(1) && wide_sums() && types.compute == DType::bf16 && !steps_on_host();
  }
  bool steps_on_host() const { return candidate.offload.optimizer; }
  bool to_disk() const { return candidate.offload.to == OffloadTo::nvme; }
  bool in_fused_optimizer() const { return narrow() && cuda() && has(OptimizerKind::adamw); }
  bool in_flat_optimizer() const { return (at(1) || at(2)) && !in_bf16_optimizer(); }
};

bool zero0_unfused(const Case& c) { return c.at(0) && !c.in_fused_optimizer(); }
bool zero0_fused(const Case& c) { return c.at(0) && c.in_fused_optimizer(); }
bool zero0_narrow(const Case& c) { return c.at(0) && c.narrow(); }
bool zero0_reduces(const Case& c) { return c.at(0) && c.candidate.dp > 1 && !c.narrow(); }
bool zero1_narrow(const Case& c) { return c.at(1) && !c.wide_sums(); }
bool zero1_sums(const Case& c) { return zero1_narrow(c) && c.accumulates(); }
bool zero1_keeps(const Case& c) {
  return zero1_narrow(c) && !c.accumulates() && !overlaps(c.candidate);
}
bool zero1_wide(const Case& c) { return c.at(1) && c.wide_sums() && !c.in_bf16_optimizer(); }
bool zero1_wide_once(const Case& c) { return zero1_wide(c) && !c.accumulates(); }
bool zero1_wide_sums(const Case& c) { return zero1_wide(c) && c.accumulates(); }
bool zero2_narrow(const Case& c) { return c.at(2) && !c.wide_sums() && !c.steps_on_host(); }
bool zero2_fills(const Case& c) { return c.at(2) && c.fills_bucket(); }
bool zero2_narrow_fills(const Case& c) { return zero2_narrow(c) && c.fills_bucket(); }
bool zero2_wide(const Case& c) { return c.at(2) && c.wide_sums() && !c.steps_on_host(); }
bool zero2_adds(const Case& c) { return zero2_narrow(c) && c.accumulates(); }
bool zero3(const Case& c) { return c.at(3); }
/// A single rank's part is the weights themselves, and what gathers them makes no copy, unless it
/// takes them to the device. Source: deepspeed/runtime/zero/partition_parameters.py,
/// NoGatherCoalescedHandle @ 0.19.8.
bool gathers(const Candidate& c) { return shard_ranks(c) > 1 || c.offload.params; }
bool zero3_gathers(const Case& c) { return c.at(3) && gathers(c.candidate); }
bool zero3_fills(const Case& c) { return zero3(c) && c.fills_bucket(); }
bool zero3_narrow(const Case& c) {
  return c.at(3) && c.narrow() && !c.wide_sums() && !c.steps_on_host();
}
bool zero3_steps(const Case& c) { return c.at(3) && !c.steps_on_host(); }
bool keeps_own_part(const Case& c) { return zero1_narrow(c) && !c.steps_on_host(); }
bool flattens(const Case& c) { return c.narrow() && (keeps_own_part(c) || zero2_narrow(c)); }
bool flat_on_host(const Case& c) { return c.in_flat_optimizer() && c.steps_on_host(); }
bool flat_adds_on_host(const Case& c) { return flat_on_host(c) && c.accumulates(); }
bool steps_flat_part(const Case& c) { return c.in_flat_optimizer() && !c.steps_on_host(); }
bool zero3_on_host(const Case& c) { return c.at(3) && c.steps_on_host() && !c.to_disk(); }
bool states_on_disk(const Case& c) { return c.at(3) && c.steps_on_host() && c.to_disk(); }
bool offloads_weights(const Case& c) { return c.candidate.offload.params; }
bool weights_on_disk(const Case& c) { return offloads_weights(c) && c.to_disk(); }
bool in_bf16_optimizer(const Case& c) { return c.in_bf16_optimizer(); }
/// Zero 1 fills buffers after the last micro-batch, and has them from the first one's first
/// gradient on; zero 2 has them anew in each.
bool keeps_buffers(const Case& c) { return c.at(1) && c.accumulates(); }
bool has_buffer(const Case& c) { return c.in_flat_optimizer() && !zero1_wide(c); }
bool has_second_buffer(const Case& c) { return has_buffer(c) && overlaps(c.candidate); }
bool has_buffer_anew(const Case& c) { return has_buffer(c) && !keeps_buffers(c); }
bool has_second_buffer_anew(const Case& c) { return has_second_buffer(c) && !keeps_buffers(c); }
bool has_wide_buffer_anew(const Case& c) { return zero1_wide(c) && !keeps_buffers(c); }
bool keeps_buffer(const Case& c) { return has_buffer(c) && keeps_buffers(c); }
bool keeps_second_buffer(const Case& c) { return has_second_buffer(c) && keeps_buffers(c); }
bool keeps_wide_buffer(const Case& c) { return zero1_wide(c) && keeps_buffers(c); }
bool has_master(const Case& c) { return c.narrow() || c.at(1) || c.at(2); }
bool is_adamw(const Case& c) { return c.has(OptimizerKind::adamw); }
bool is_lion(const Case& c) { return c.has(OptimizerKind::lion); }
bool steps_tensors(const Case& c) { return is_adamw(c) && c.at(0) && !c.cuda(); }
bool steps_flat(const Case& c) { return is_adamw(c) && !c.at(0) && !c.cuda(); }

/// Of a fused matrix each part is a tensor of the model's.
bool stays_gathered(const FlatTensor& t) {
  return std::all_of(t.rows.begin(), t.rows.end(), [&](const Stretch& part) {
    return part.count * t.columns.count <= kPersistent;
  });
}

/// When in its phases a row is there: from the beginning, bit by bit, or from a backward's first
/// gradient on.
enum class Comes { at_once, bit_by_bit, with_gradients };
constexpr Comes kAtOnce = Comes::at_once, kGrows = Comes::bit_by_bit,
                kWithGradients = Comes::with_gradients;

struct Row {
  Account account;
  HoldingOf of;
  std::int64_t (*bytes_each)(const PrecisionRecipe&);
  ShardedBy (*sharded_by)(const Candidate&);
  Phase from, to;
  bool (*when)(const Case&);
  const char* source;
  Comes comes = kAtOnce;
  std::int64_t at_most = 0;
  bool (*takes)(const FlatTensor&) = nullptr;
  Home (*home)(const Candidate&) = nullptr;
  bool pinned = false;

  Row at(Home (*where)(const Candidate&), bool page_locked) const {
    Row row = *this;
    row.home = where;
    row.pinned = page_locked;
    return row;
  }
};

/// Offload, where the Adam of the host steps. Buffers of one tensor each that are there for good;
/// each micro-batch's gradients go into the own part, in fp32, through a sum of their own type.
std::vector<Row> offload_rows() {
  using enum Account;
  using enum HoldingOf;
  const Row rows[] = {
      // account    of      bytes   by          from   to    when     source
      {optimizer, trained, weight, flat, kLoad, kEnd, flat_on_host, kZero12},
      {gradients, trained, stepped, flat, kLoad, kEnd, flat_on_host, kZero12},
      {gradients, trained, weight, flat, kLoad, kEnd, flat_adds_on_host, kZero12},
      {staging, largest_tensor, weight, whole, kLoad, kEnd, flat_on_host, kZero12},
      {gradients, trained, stepped, tensors, kLoad, kEnd, zero3_on_host, kZero3},
      // A disk's buffers are for the largest sub-group, and some weights stay in memory.
      {staging, trained, state_buffers, tensors, kLoad, kEnd, states_on_disk, kSwapper, kAtOnce,
       kSubGroup},
      {staging, trained, weight, tensors, kLoad, kEnd, weights_on_disk, kZero3, kAtOnce,
       kWeightsInMemory},
      {staging, step_counters, weight_buffers, whole, kLoad, kEnd, weights_on_disk, kParamSwapper},
  };
  std::vector<Row> all;
  for (const Row& row : rows) all.push_back(row.at(on_host, true));
  all.push_back({staging, largest_tensor, weight, whole, kLoad, kEnd, flat_on_host, kZero12});
  all.push_back(
      {staging, largest_unit, weight, tensors, kForward, kBackward, offloads_weights, kOffload});
  return all;
}

const std::vector<Row>& rows() {
  using enum Account;
  using enum HoldingOf;
  static const std::vector<Row> kRows{
      // account    of      bytes   by          from   to    when     source
      Row{parameters, trained, weight, with_three, kLoad, kEnd, nullptr, kZero12}.at(weights_home,
                                                                                     true),
      Row{parameters, frozen, weight, with_three, kLoad, kEnd, nullptr, kZero3}.at(weights_home,
                                                                                   true),
      {parameters, trained, weight, whole, kLoad, kBackward, zero3_gathers, kOffload, kAtOnce, 0,
       stays_gathered},
      Row{optimizer, trained, stepped, with_one, kLoad, kEnd, has_master, kZero12}.at(states_home,
                                                                                      true),
      Row{optimizer, trained, two_states, with_one, kLoad, kEnd, is_adamw, kAdam}.at(states_home,
                                                                                     false),
      Row{optimizer, trained, state, with_one, kLoad, kEnd, is_lion, kLion}.at(states_home, false),
      // On CPUs torch's Adam takes FusedAdam's place, tensor by tensor or over the flat part: it
      // counts steps in a tensor, and makes a denominator and a copy of it.
      {optimizer, trained_tensors, scalar, whole, kLoad, kEnd, steps_tensors, kUnfused},
      {optimizer, largest_tensor, two_states, whole, kEnd, kEnd, steps_tensors, kTorchAdam},
      {optimizer, step_counters, scalar, whole, kLoad, kEnd, steps_flat, kZero12},
      {optimizer, trained, two_states, with_one, kEnd, kEnd, steps_flat, kTorchAdam, kAtOnce,
       kSubGroup},

      // Zero 0: copies of .grad are reduced, and then the step goes over larger ones in fp32.
      // FusedAdam's wrapper makes them each and then all as one, and frees .grad; the other one
      // does
      // neither.
      {gradients, trained, weight, whole, kBackward, kEnd, zero0_unfused, kUnfused, kGrows},
      {gradients, trained, weight, whole, kBackward, kReduce, zero0_fused, kFused, kGrows},
      {gradients, trained, stepped, whole, kReduce, kReduce, zero0_fused, kFused},
      {gradients, trained, stepped, whole, kReduce, kEnd, zero0_narrow, kFused},
      {communication, trained, weight, whole, kReduce, kReduce, zero0_reduces, kEngine, kAtOnce,
       kPlainBucket},

      // Zero 1: .grad is whole until the last micro-batch, with what is reduced after it until that
      // has ended, or its sums in fp32 are. For bf16 these are a class of their own, which keeps
      // both until it has stepped.
      {gradients, trained, weight, whole, kBackward, kBackward, zero1_keeps, kZero12, kGrows},
      {gradients, trained, sum, whole, kBackward, kBackward, zero1_wide_once, kZero12, kGrows},
      {gradients, trained, weight, whole, kForward, kBackward, zero1_sums, kZero12},
      {gradients, trained, sum, whole, kForward, kBackward, zero1_wide_sums, kZero12},
      {gradients, trained, sum, whole, kLoad, kEnd, in_bf16_optimizer, kBf16},
      {gradients, trained, weight, whole, kBackward, kEnd, in_bf16_optimizer, kBf16, kGrows},
      {communication, trained, sum, whole, kReduce, kReduce, in_bf16_optimizer, kEngine, kAtOnce,
       kPlainBucket},

      // Zero 1 and 2: through a bucket, and a copy of it that is reduced, into the own part, which
      // the step copies as one and widens when the bucket is gone. With zero 1 the copies are less
      // than what .grad has lost by then. With zero 2 each micro-batch has a part, and the next
      // one's is added to it.
      {gradients, trained, weight, flat, kReduce, kReduce, keeps_own_part, kZero12},
      {gradients, trained, sum, flat, kBackward, kBackward, zero2_narrow_fills, kZero12},
      {gradients, trained, sum, flat, kReduce, kReduce, zero2_narrow, kZero12},
      {gradients, trained, sum, flat, kForward, kBackward, zero2_adds, kZero12},
      {gradients, trained, sum, flat, kBackward, kBackward, zero2_wide, kZero12},
      {gradients, trained, sum, flat, kReduce, kReduce, flattens, kZero12},
      {gradients, trained, stepped, flat, kReduce, kEnd, steps_flat_part, kZero12},
      {communication, bucket, sum, whole, kForward, kBackward, keeps_wide_buffer, kZero12},
      {communication, bucket, weight, whole, kForward, kBackward, keeps_buffer, kZero12},
      {communication, bucket, weight, whole, kForward, kBackward, keeps_second_buffer, kZero12},
      {communication, bucket, sum, whole, kBackward, kBackward, has_wide_buffer_anew, kZero12,
       kWithGradients},
      {communication, bucket, weight, whole, kBackward, kBackward, has_buffer_anew, kZero12,
       kWithGradients},
      {communication, bucket, weight, whole, kBackward, kBackward, has_second_buffer_anew, kZero12,
       kWithGradients},
      {communication, filled_bucket, weight, whole, kBackward, kBackward, zero2_fills, kZero12,
       kWithGradients},

      // Zero 3: the own part and the bucket are there for good, the bucket is cut and put together
      // anew to be reduced, and so many elements are copied as one, widened and stepped at a time.
      Row{gradients, trained, sum, tensors, kLoad, kEnd, zero3, kZero3}.at(beside_states, true),
      {gradients, trained, sum, tensors, kReduce, kReduce, zero3_narrow, kZero3, kAtOnce,
       kSubGroup},
      {gradients, trained, stepped, tensors, kReduce, kEnd, zero3_steps, kZero3, kAtOnce,
       kSubGroup},
      {communication, bucket, weight, whole, kLoad, kEnd, zero3, kZero3},
      {communication, filled_bucket, weight, whole, kBackward, kBackward, zero3_fills, kCoalesced,
       kWithGradients},
  };
  return kRows;
}

Holding holding_of(const Row& row, const Use& use) {
  Holding holding;
  holding.account = row.account;
  holding.of = row.of;
  holding.bytes_each = [types = use.types, bytes = row.bytes_each](const PrecisionRecipe& recipe) {
    return bytes(types(recipe));
  };
  holding.sharded_by = row.sharded_by;
  holding.from = row.from;
  holding.to = row.to;
  holding.when = [used = use.used, types = use.types, when = row.when](const Problem& p,
                                                                       const Candidate& c) {
    if (!used(c)) return false;
    return when == nullptr || when({p, c, types(p.workload.recipe)});
  };
  holding.source = row.source;
  holding.takes = row.takes;
  holding.at_most = row.at_most;
  holding.grows = row.comes == Comes::bit_by_bit;
  holding.with_gradients = row.comes == Comes::with_gradients;
  holding.home = row.home;
  holding.pinned = row.pinned;
  return holding;
}

}  // namespace

std::optional<PrecisionRecipe> recipe(Precision precision) {
  const auto computed_in = [](DType type, std::optional<DType> master) {
    return PrecisionRecipe{type, type, type, master, DType::fp32};
  };
  switch (precision) {
    case Precision::fp32:
      return computed_in(DType::fp32, std::nullopt);
    case Precision::bf16:
      return computed_in(DType::bf16, DType::fp32);
    case Precision::fp16:
      return computed_in(DType::fp16, DType::fp32);
    case Precision::fp64:
    case Precision::fp8:
      return std::nullopt;
  }
  return std::nullopt;
}

PrecisionRecipe default_types(const PrecisionRecipe& kept) {
  PrecisionRecipe types{kept.compute, kept.compute, kept.compute, std::nullopt, DType::fp32};
  if (bytes_of(kept.compute) == 2) types.master = DType::fp32;
  return types;
}

std::vector<Offload> offloads() {
  std::vector<Offload> all{Offload{}};
  for (const OffloadTo to : {OffloadTo::cpu, OffloadTo::nvme}) {
    all.push_back({.optimizer = true, .to = to});
    all.push_back({.optimizer = true, .params = true, .to = to});
  }
  return all;
}

std::vector<Holding> holdings(const Use& use) {
  std::vector<Holding> all;
  for (const auto& group : {rows(), offload_rows()}) {
    std::transform(group.begin(), group.end(), std::back_inserter(all),
                   [&](const Row& row) { return holding_of(row, use); });
  }
  return all;
}

Sharding sharding(const Problem& problem, const Candidate& candidate) {
  const DType type = problem.workload.recipe.compute;
  Sharding sharding{.gathered = type, .made = type, .reduced = type};
  sharding.each_micro_batch = candidate.zero >= 2;
  if (candidate.zero > 0) sharding.gathering = Gathering::after_step;
  if (candidate.zero == 3) {
    sharding.gathering = gathers(candidate) ? Gathering::each_use : Gathering::none;
    sharding.reuse_elements = kReuse;
    sharding.by_unit = true;
  }
  return sharding;
}

}  // namespace planwright::targets::deepspeed
