#include "launcher/targets/shared/torch_states.h"

#include <utility>

#include "estimator/spec/flat_layout.h"
#include "launcher/targets/shared/dimensions.h"

namespace planwright::targets {
namespace {

constexpr const char* kReducer =
    "pytorch/pytorch torch/csrc/distributed/c10d/reducer.cpp @ v2.11.0";
constexpr const char* kAutocast = "pytorch/pytorch aten/src/ATen/autocast_mode.cpp @ v2.11.0";
constexpr const char* kParam =
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_param.py @ v2.11.0";
constexpr const char* kStage = "pytorch/pytorch torch/distributed/pipelining/stage.py @ v2.11.0";
constexpr const char* kOptim = "pytorch/pytorch torch/optim/optimizer.py @ v2.11.0";
constexpr const char* kSgd = "pytorch/pytorch torch/optim/sgd.py @ v2.11.0";
constexpr const char* kGroup =
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py @ v2.11.0";
constexpr const char* kCollectives =
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py @ v2.11.0";
constexpr const char* kBase = "huggingface/peft src/peft/tuners/tuners_utils.py @ v0.13.2";
constexpr const char* kQuantised =
    "bitsandbytes-foundation/bitsandbytes bitsandbytes/functional.py, quantize_4bit @ 0.45.0";
constexpr const char* kFlat =
    "pytorch/pytorch torch/distributed/fsdp/_flat_param.py @ v2.1.0, _get_unflat_views_unaligned";
constexpr const char* kBitsandbytes =
    "Lightning-AI/pytorch-lightning src/lightning/fabric/plugins/precision/bitsandbytes.py @ 2.1.0";
constexpr const char* kAdamW = "pytorch/pytorch torch/optim/adam.py @ v2.11.0";

constexpr const char* kBytes =
    "bitsandbytes-foundation/bitsandbytes bitsandbytes/optim/optimizer.py, Optimizer2State, and "
    "backends/cuda/ops.py @ 0.49.0";
constexpr const char* kWideStates =
    "huggingface/transformers src/transformers/trainer.py, create_optimizer @ v5.23.0; "
    "bitsandbytes-foundation/bitsandbytes bitsandbytes/optim/optimizer.py, min_8bit_size @ 0.49.0";

constexpr Phase kLoad = Phase::load;
constexpr Phase kForward = Phase::forward;
constexpr Phase kLoss = Phase::loss;
constexpr Phase kBackward = Phase::backward;
constexpr Phase kReduce = Phase::reduce;
constexpr Phase kEnd = Phase::optimizer;

std::int64_t updated_bytes(const PrecisionRecipe& r) { return bytes_of(updated_type(r)); }
std::int64_t compute_bytes(const PrecisionRecipe& r) { return bytes_of(r.compute); }
std::int64_t gradient_bytes(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t state_bytes(const PrecisionRecipe& r) { return bytes_of(r.state); }
std::int64_t scalar_bytes(const PrecisionRecipe&) { return 4; }
std::int64_t one_byte(const PrecisionRecipe&) { return 1; }

ShardedBy whole(const Candidate&) { return ShardedBy::nothing; }
ShardedBy rows(const Candidate& c) {
  return c.zero >= 2 ? ShardedBy::each_row : ShardedBy::nothing;
}

/// FSDP1's flat parameters, whose end is padded.
ShardedBy flat(const Candidate& c) {
  return c.zero >= 2 ? ShardedBy::data_ranks : ShardedBy::nothing;
}

bool shards(const Candidate& c) { return c.zero >= 2; }
bool offloads(const Problem&, const Candidate& c) { return c.offload.params; }
Home parts_home(const Candidate& c) { return c.offload.params ? Home::host : Home::device; }

bool said(bool (*use)(const Candidate&), const Candidate& c) { return use != nullptr && use(c); }

/// Weights of another type are cast to be multiplied, and the copies are the graph's until their
/// backward. With recomputation they are autocast's, as long as the forward runs.
bool autocasts(const Problem& p, const Candidate& c) {
  const PrecisionRecipe& recipe = p.workload.recipe;
  return c.zero == 0 && recipe.compute != updated_type(recipe);
}
bool runs_again(const Candidate& c) {
  return c.recompute.kind == RecomputeKind::full || c.recompute.kind == RecomputeKind::op;
}
bool keeps_casts(const Problem& p, const Candidate& c) { return autocasts(p, c) && !runs_again(c); }
bool casts_again(const Problem& p, const Candidate& c) { return autocasts(p, c) && runs_again(c); }
bool on_gpus(const Problem& p) { return p.cluster.device.kind == DeviceKind::cuda; }

/// A matrix of a product; a tied one is the head's too.
bool is_multiplied(const FlatTensor& t) {
  const std::string& name = t.tensor.name;
  const bool looked_up = name == "positions" || name == "token_types" ||
                         (name == "embedding" && t.first_unit == t.unit);
  return t.tensor.shape.size() == 2 && !looked_up;
}

/// States of an 8-bit optimizer in bytes, whose scales, a 64th of them, are not counted; those of
/// tables and of small tensors are fp32.
bool has_byte_states(const FlatTensor& t) {
  constexpr std::int64_t kLeast = 4096;
  const std::string& name = t.tensor.name;
  const bool is_table = name == "embedding" || name == "positions" || name == "token_types";
  return !is_table && t.numel >= kLeast;
}
bool has_wide_states(const FlatTensor& t) { return !has_byte_states(t); }

bool is_of_block(const FlatTensor& t) { return is_multiplied(t) && t.tensor.linear; }
bool is_not_linear(const FlatTensor& t) { return !t.tensor.linear; }

/// In a unit that has trained weights, too: one without any has no gradient.
bool is_beside_adapters(const FlatTensor& t) { return t.tensor.name.starts_with("blocks."); }

/// Fabric's plug-in packs every nn.Linear; the embedding is none.
bool is_packed(const FlatTensor& t) { return t.tensor.linear || t.tensor.name == "head.weight"; }
bool is_not_packed(const FlatTensor& t) { return !is_packed(t); }

/// The stages of a pipeline reduce once, and do not reshard after a backward: at zero 2 they gather
/// once. At zero 3 a forward reshards, and a backward gathers all again.
bool in_stages(const Problem&, const Candidate& c) { return shards(c) && c.pp > 1; }
bool gathers_once(const Problem& p, const Candidate& c) { return in_stages(p, c) && c.zero == 2; }
bool gathers_again(const Problem& p, const Candidate& c) { return in_stages(p, c) && c.zero == 3; }
/// A backward in two leaves gradients of weights in the type that is computed in, which the next
/// one's first part adds to those of the reduced type. Source: kParam,
/// to_accumulated_grad_if_needed.
bool leaves_narrow(const Problem& p, const Candidate& c) {
  const PrecisionRecipe& recipe = p.workload.recipe;
  const bool in_two = c.schedule == Schedule::zero_bubble;
  return in_stages(p, c) && in_two && recipe.compute != recipe.gradient;
}
bool in_micro_batches(const Problem& p, const Candidate& c) {
  return shards(c) && c.pp == 1 && accumulation(p, c) > 1;
}

bool is_adamw(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::adamw;
}
bool is_adam8bit(const Problem& p, const Candidate&) {
  const OptimizerKind kind = p.workload.optimizer;
  return kind == OptimizerKind::adam8bit || kind == OptimizerKind::paged_adam8bit;
}
bool is_lion(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::lion;
}
bool is_adafactor(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::adafactor;
}

/// Autocast's copies. In transformers' modules each belongs to the graph, but for the trained ones
/// of a forward without one.
std::vector<Holding> casts(const TorchUse& use) {
  using enum Account;
  using enum HoldingOf;
  const auto in_modules = [use](const Problem& p) {
    return use.transformers || ((use.litgpt || use.torch_modules) && on_gpus(p));
  };
  const auto kept = [=](const Problem& p, const Candidate& c) {
    return keeps_casts(p, c) && !in_modules(p);
  };
  const auto again = [=](const Problem& p, const Candidate& c) {
    return casts_again(p, c) && !in_modules(p);
  };
  const auto again_in_modules = [=](const Problem& p, const Candidate& c) {
    return casts_again(p, c) && in_modules(p) && (use.autocasts == nullptr || use.autocasts(c));
  };
  return {
      // account    of      bytes each  copies by    from      to         when         source
      {parameters, trained, compute_bytes, 1, whole, kForward, kBackward, kept, kAutocast,
       is_multiplied},
      {parameters, frozen, compute_bytes, 1, whole, kForward, kBackward, kept, kAutocast,
       is_multiplied},
      {parameters, trained, compute_bytes, 1, whole, kForward, kLoss, again, kAutocast,
       is_multiplied},
      {parameters, trained, compute_bytes, 1, whole, kForward, kLoss, again_in_modules, kAutocast,
       is_of_block},
  };
}

/// A frozen base: as the trained weights, or as transformers' users load one.
std::vector<Holding> frozen_base(const TorchUse& use) {
  using enum Account;
  using enum HoldingOf;
  const auto wide = [use](const Problem& p, const Candidate&) {
    return !use.transformers && !(use.litgpt && p.workload.serving.weights);
  };
  const auto plain = [use](const Problem& p, const Candidate&) {
    return use.transformers && !p.workload.serving.weights;
  };
  const auto packed = [use](const Problem& p, const Candidate&) {
    return use.transformers && p.workload.serving.weights;
  };
  const auto packs_head = [use](const Problem& p, const Candidate&) {
    return use.litgpt && p.workload.serving.weights.has_value();
  };
  return {
      // account    of      bytes each  copies by    from      to         when         source
      {parameters, frozen, updated_bytes, 1, rows, kLoad, kEnd, wide, kParam},
      {parameters, frozen, compute_bytes, 1, rows, kLoad, kEnd, plain, kBase},
      {parameters, frozen, compute_bytes, 1, rows, kLoad, kEnd, packed, kBase, is_not_linear},
      {parameters, quantised, one_byte, 1, rows, kLoad, kEnd, packed, kQuantised},
      {parameters, quantisation, one_byte, 1, whole, kLoad, kEnd, packed, kQuantised},
      {parameters, frozen, compute_bytes, 1, whole, kLoad, kEnd, packs_head, kBitsandbytes,
       is_not_packed},
      {parameters, quantised, one_byte, 1, whole, kLoad, kEnd, packs_head, kBitsandbytes,
       is_packed},
      {parameters, quantisation, one_byte, 1, whole, kLoad, kEnd, packs_head, kBitsandbytes,
       is_packed},
  };
}

std::vector<Holding> weights() {
  using enum Account;
  using enum HoldingOf;
  return {
      // account    of      bytes each  copies by    from      to         when         source
      {parameters, trained, updated_bytes, 1, rows, kLoad, kEnd, nullptr, kParam},
      {parameters, trained, compute_bytes, 1, whole, kForward, kBackward, gathers_once, kStage},
      {parameters, trained, compute_bytes, 1, whole, kBackward, kBackward, gathers_again, kStage},
  };
}

/// zero_grad drops them, so that a backward makes them anew. Those that are kept whole are reduced
/// at the end: the micro-batches do without the reduced ones.
std::vector<Holding> gradients(const TorchUse& use) {
  using enum Account;
  using enum HoldingOf;
  const auto kept_whole = [use](const Problem& p, const Candidate& c) {
    return in_stages(p, c) || (use.defers && in_micro_batches(p, c));
  };
  const auto reduced = [=](const Problem& p, const Candidate& c) { return !kept_whole(p, c); };
  const auto deferred = [use](const Problem& p, const Candidate& c) {
    return use.defers && in_micro_batches(p, c);
  };
  // A unit's flat gradient is as long as the unit, whatever of it is frozen.
  const auto flat = [=](const Problem& p, const Candidate& c) {
    return deferred(p, c) && use.litgpt && said(use.fsdp1, c) && p.model.lora.freezes();
  };
  const auto deferred_bytes = use.reduces_narrow ? compute_bytes : gradient_bytes;
  const auto replicates = [use](const Problem& p, const Candidate& c) {
    return c.zero == 0 && (c.dp > 1 || (use.replicates_one != nullptr && use.replicates_one(p)));
  };
  constexpr bool kGrows = true;
  return {
      // account     of       bytes each  copies by     from       to      when      source
      {Account::gradients, trained, updated_bytes, 1, rows, kBackward, kEnd, reduced, kOptim,
       nullptr, 0, kGrows},
      {Account::gradients, trained, updated_bytes, 1, rows, kReduce, kEnd, kept_whole, kGroup},
      {Account::gradients, trained, gradient_bytes, 1, whole, kBackward, kReduce, in_stages, kStage,
       nullptr, 0, kGrows},
      {Account::gradients, trained, compute_bytes, 1, whole, kBackward, kReduce, leaves_narrow,
       kParam},
      {Account::gradients, trained, deferred_bytes, 1, whole, kForward, kBackward, deferred,
       kGroup},
      {Account::gradients, frozen, deferred_bytes, 1, whole, kBackward, kBackward, flat, kFlat,
       is_beside_adapters},
      {communication, trained, updated_bytes, 1, whole, kLoad, kEnd, replicates, kReducer},
  };
}

std::vector<Holding> states(const TorchUse& use) {
  using enum Account;
  using enum HoldingOf;
  // A denominator of one tensor after the other, or on GPUs of all at once.
  const auto at_once = [](const Problem& p, const Candidate& c) {
    return on_gpus(p) && !offloads(p, c);
  };
  const auto one_denominator = [=](const Problem& p, const Candidate& c) {
    return is_adamw(p, c) && !said(use.fused_adamw, c) && !at_once(p, c);
  };
  const auto all_denominators = [=](const Problem& p, const Candidate& c) {
    return is_adamw(p, c) && !said(use.fused_adamw, c) && at_once(p, c);
  };
  const auto has_momentum = [use](const Problem& p, const Candidate&) {
    return use.has_momentum && p.workload.optimizer == OptimizerKind::sgd;
  };
  return {
      // account   of     bytes each copies by    from   to    when          source
      {optimizer, trained, state_bytes, 2, rows, kLoad, kEnd, is_adamw, kAdamW},
      {optimizer, trained_tensors, scalar_bytes, 1, whole, kLoad, kEnd, is_adamw, kAdamW},
      {optimizer, largest_tensor, state_bytes, 2, rows, kEnd, kEnd, one_denominator, kAdamW},
      {optimizer, trained, state_bytes, 1, rows, kEnd, kEnd, all_denominators, kAdamW},
      {optimizer, trained, one_byte, 2, rows, kLoad, kEnd, is_adam8bit, kBytes, has_byte_states},
      {optimizer, trained, scalar_bytes, 2, rows, kLoad, kEnd, is_adam8bit, kWideStates,
       has_wide_states},
      {optimizer, trained, state_bytes, 1, rows, kLoad, kEnd, is_lion, kOptim},
      {optimizer, trained, state_bytes, 1, rows, kLoad, kEnd, has_momentum, kSgd},
      {optimizer, factored_moments, state_bytes, 1, whole, kLoad, kEnd, is_adafactor, kOptim},
  };
}

/// With CPUOffloadPolicy, and FSDP1's CPUOffload, a rank's part of weights and gradients is at home
/// in page-locked memory, and its states beside them.
void send_parts_home(std::vector<Holding>& all) {
  for (Holding& each : all) {
    const bool state = each.account == Account::optimizer;
    if (!state && each.sharded_by != rows) continue;
    each.home = parts_home;
    each.pinned = !state;
  }
}

/// On the device is what a unit takes on the way: its part as it is kept and as it is gathered, and
/// in backward its reduced gradients. Sources: kParam, all_gather_inputs; kCollectives,
/// foreach_reduce.
std::vector<Holding> offload_staging() {
  using enum Account;
  using enum HoldingOf;
  const auto casts = [](const Problem& p, const Candidate& c) {
    return offloads(p, c) && p.workload.recipe.compute != updated_type(p.workload.recipe);
  };
  return {
      // account   of     bytes each   copies by    from     to         when      source
      {staging, largest_unit, updated_bytes, 1, rows, kForward, kBackward, offloads, kParam},
      {staging, largest_unit, compute_bytes, 1, rows, kForward, kBackward, casts, kParam},
      {staging, largest_unit, gradient_bytes, 1, rows, kBackward, kBackward, offloads,
       kCollectives},
  };
}

}  // namespace

std::optional<PrecisionRecipe> torch_recipe(Precision precision) {
  const auto computed_in = [](DType type) {
    const DType kept = accumulation_type(type);
    return PrecisionRecipe{kept, type, kept, std::nullopt, kept};
  };
  switch (precision) {
    case Precision::fp64:
      return computed_in(DType::fp64);
    case Precision::fp32:
      return computed_in(DType::fp32);
    case Precision::bf16:
      return computed_in(DType::bf16);
    case Precision::fp16:
      return computed_in(DType::fp16);
    case Precision::fp8:
      return std::nullopt;
  }
  return std::nullopt;
}

std::vector<Offload> offloads_of_all_states() {
  return {Offload{}, {.optimizer = true, .params = true}};
}

std::vector<Holding> torch_holdings(const TorchUse& use) {
  std::vector<Holding> all = weights();
  for (const auto& group : {frozen_base(use), casts(use), gradients(use), states(use)}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  send_parts_home(all);
  for (Holding& each : offload_staging()) all.push_back(std::move(each));
  if (use.fsdp1 == nullptr) return all;
  std::vector<Holding> cut = all;
  for (Holding& holding : cut) {
    if (holding.sharded_by == rows) holding.sharded_by = flat;
  }
  cut = only_if(use.fsdp1, std::move(cut));
  all = only_if(std::not_fn(use.fsdp1), std::move(all));
  all.insert(all.end(), cut.begin(), cut.end());
  return all;
}

Sharding torch_sharding(const TorchUse& use, const Problem& problem, const Candidate& candidate) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  Sharding sharding{.made = updated_type(recipe),
                    .reduced = updated_type(recipe),
                    .each_micro_batch = !use.defers || accumulation(problem, candidate) == 1};
  if (!shards(candidate)) return sharding;
  sharding.gathered = sharding.made = recipe.compute;
  sharding.gathering = candidate.zero == 3 ? Gathering::each_use
                       : candidate.pp > 1  ? Gathering::each_step
                                           : Gathering::each_micro_batch;
  sharding.reduced = use.reduces_narrow ? recipe.compute : recipe.gradient;
  sharding.by_unit = true;
  if (candidate.pp > 1) {
    sharding.each_micro_batch = false;
  } else {
    sharding.buckets = sharding.reduced_apart = true;
  }
  sharding.one_outer_unit = said(use.fsdp1, candidate);
  sharding.copies_out = candidate.pp == 1 && !sharding.one_outer_unit;
  sharding.keeps_head = use.keeps_head;
  return sharding;
}

Holding hugging_face_rotary() {
  return {Account::activations,
          HoldingOf::rope_table,
          compute_bytes,
          2,
          whole,
          kForward,
          kBackward,
          nullptr,
          "huggingface/transformers src/transformers/models/llama/modeling_llama.py @ v5.23.0"};
}

std::vector<Holding> only_if(const std::function<bool(const Candidate&)>& used,
                             std::vector<Holding> holdings) {
  for (Holding& holding : holdings) {
    holding.when = [used, when = std::move(holding.when)](const Problem& p, const Candidate& c) {
      return used(c) && (!when || when(p, c));
    };
  }
  return holdings;
}

std::int64_t ddp_bucket_elements(std::int64_t mebibytes) {
  return mebibytes * 1024 * 1024 / bytes_of(DType::fp32);
}

}  // namespace planwright::targets
