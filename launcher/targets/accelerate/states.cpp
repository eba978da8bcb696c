#include "launcher/targets/accelerate/states.h"

#include <utility>

#include "launcher/targets/deepspeed/holdings.h"
#include "launcher/targets/deepspeed/rules.h"
#include "launcher/targets/shared/fsdp1.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/torch_states.h"
#include "launcher/targets/shared/transformers_use.h"

namespace planwright::targets::accelerate {
namespace {

/// no_sync in all micro-batches but the last, whatever shards; FSDP's policy has one type for
/// weights and reduction, and embedding, each block, and norm with head are its units, of which the
/// last is not resharded after its forward. Sources:
/// huggingface/accelerate src/accelerate/accelerator.py (no_sync), utils/dataclasses.py
/// (set_mixed_precision), utils/fsdp_utils.py (fsdp2_prepare_model) @ v1.15.0. FSDP1's flat
/// parameters are as many bytes.
TorchUse torch_use(const Use& use) {
  return {.defers = true,
          .reduces_narrow = true,
          .has_momentum = use.has_momentum,
          .replicates_one = use.replicates_one,
          .fused_adamw = use.fused_adamw,
          .fsdp1 = use.fsdp1,
          .keeps_head = true,
          .autocasts = autocasts,
          .transformers = true};
}

bool checkpoints_reentrantly(const Use& use, const Candidate& c) {
  return c.recompute.kind == RecomputeKind::full && use.reentrant != nullptr && use.reentrant(c);
}

/// FSDP and DeepSpeed hand weights to the modules in the type that is computed in.
HfModules modules(const Use& use, const Problem& problem, const Candidate& c) {
  const bool deepspeed = use.under_deepspeed(c);
  HfModules modules = modules_of(problem, c,
                                 {.gathered = deepspeed || (c.zero >= 2 && autocasts(c)),
                                  .autocast = autocasts(c) && !deepspeed});
  modules.reentrant = checkpoints_reentrantly(use, c);
  return modules;
}

/// FSDP1 watches a unit without trained weights by a hook on its inputs, which refers to them and
/// to their gradients until the last backward has ended; the inputs of blocks that are run again
/// are leaves, and have gradients. Sources: pytorch torch/distributed/fsdp/_runtime_utils.py,
/// _register_post_backward_reshard_only_hook and _finalize_params, torch/autograd/graph.py,
/// register_multi_grad_hook @ v2.11.0; peft utils/other.py, fsdp_auto_wrap_policy, which makes
/// adapters units of their own.
bool holds_inputs(const Use& use, const Problem& problem, const Candidate& c) {
  const bool fsdp1 = use.fsdp1 != nullptr && use.fsdp1(c) && c.zero >= 2;
  return fsdp1 && problem.model.lora.freezes() && checkpoints_reentrantly(use, c);
}

Sharding sharding(const Use& use, const Problem& problem, const Candidate& c) {
  if (use.under_deepspeed(c)) return deepspeed::sharding(problem, c);
  Sharding sharding = torch_sharding(torch_use(use), problem, c);
  sharding.holds_inputs = holds_inputs(use, problem, c);
  return sharding;
}

/// FSDP1 gathers ahead only what has seen a forward with gradients, and that of a reentrant
/// checkpoint has none. Source: pytorch torch/distributed/fsdp/_runtime_utils.py,
/// _get_handle_to_prefetch and _register_pre_backward_hooks @ v2.11.0.
bool overlaps(const Use& use, const Candidate& c) {
  if (use.under_deepspeed(c)) return deepspeed::overlaps(c);
  const bool fsdp1 = use.fsdp1 != nullptr && use.fsdp1(c);
  return !fsdp1 || (prefetches(c) && !checkpoints_reentrantly(use, c));
}

std::vector<Holding> holdings(const Use& use) {
  const auto under_torch = [use](const Candidate& c) { return !use.under_deepspeed(c); };
  std::vector<Holding> all = only_if(under_torch, torch_holdings(torch_use(use)));
  std::vector<Holding> zero =
      deepspeed::holdings({.used = use.under_deepspeed, .types = deepspeed::default_types});
  all.insert(all.end(), std::make_move_iterator(zero.begin()), std::make_move_iterator(zero.end()));
  all.push_back(hugging_face_rotary());
  return all;
}

}  // namespace

TargetTraits states(const std::string& name, const std::string& version, const Use& use) {
  TargetTraits traits = stand_in_traits(name, version);
  traits.holdings = holdings(use);
  traits.axes.zero = {0, 1, 2, 3};
  traits.axes.offload = deepspeed::offloads();
  traits.recipe = [](Precision precision) {
    return precision == Precision::fp64 ? std::nullopt : torch_recipe(precision);
  };
  traits.bucket_elements = [use](const Candidate& c) {
    return use.under_deepspeed(c) ? deepspeed::reduce_bucket_elements(c) : ddp_bucket_elements(25);
  };
  traits.overlaps = [use](const Candidate& c) { return overlaps(use, c); };
  traits.sharding = [use](const Problem& problem, const Candidate& c) {
    return sharding(use, problem, c);
  };
  traits.kernels = transformers_modules;
  traits.modules = [use](const Problem& problem, const Candidate& c) {
    return modules(use, problem, c);
  };
  traits.axes.loss = {LossKernel::plain, LossKernel::fused, LossKernel::chunked};
  traits.states_like_weights = true;
  return traits;
}

}  // namespace planwright::targets::accelerate
