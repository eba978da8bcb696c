#include "launcher/targets/accelerate/states.h"

#include <utility>

#include "launcher/targets/deepspeed/holdings.h"
#include "launcher/targets/deepspeed/rules.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/torch_states.h"

namespace planwright::targets::accelerate {
namespace {

/// no_sync in all micro-batches but the last, whatever shards; FSDP's policy has one type for
/// weights and reduction, and embedding, each block, and norm with head are its units. Sources:
/// huggingface/accelerate src/accelerate/accelerator.py (no_sync), utils/dataclasses.py
/// (set_mixed_precision), utils/fsdp_utils.py (fsdp2_prepare_model) @ v1.15.0. FSDP1's flat
/// parameters are as many bytes.
TorchUse torch_use(const Use& use) {
  return {.defers = true,
          .reduces_narrow = true,
          .has_momentum = use.has_momentum,
          .fused_adamw = use.fused_adamw};
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
  traits.recipe = [](Precision precision) {
    return precision == Precision::fp64 ? std::nullopt : torch_recipe(precision);
  };
  traits.bucket_elements = [use](const Candidate& c) {
    return use.under_deepspeed(c) ? deepspeed::reduce_bucket_elements(c) : ddp_bucket_elements(25);
  };
  traits.overlaps = [use](const Candidate& c) {
    return !use.under_deepspeed(c) || deepspeed::overlaps(c);
  };
  traits.sharding = [use](const Problem& problem, const Candidate& c) {
    return use.under_deepspeed(c) ? deepspeed::sharding(problem, c)
                                  : torch_sharding(torch_use(use), problem, c);
  };
  return traits;
}

}  // namespace planwright::targets::accelerate
