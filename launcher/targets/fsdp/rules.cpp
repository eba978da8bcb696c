#include "launcher/targets/fsdp/rules.h"

#include <utility>

#include "launcher/targets/shared/activations.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/fsdp1.h"
#include "launcher/targets/shared/knobs.h"

namespace planwright::targets::fsdp {
namespace {

constexpr const char* kFullyShard =
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fully_shard.py @ v2.11.0";
constexpr const char* kPolicy =
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_api.py @ v2.11.0";
constexpr const char* kFsdp1 =
    "pytorch/pytorch torch/distributed/fsdp/fully_sharded_data_parallel.py @ v2.11.0";
constexpr const char* kWrapper =
    "pytorch/pytorch torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py @ v2.11.0";
constexpr const char* kFlashLoss =
    "Dao-AILab/flash-attention flash_attn/losses/cross_entropy.py @ v1.0.9";
constexpr const char* kSettings = "launcher/targets/fsdp/emit.h";

/// Of one rank it makes NO_SHARD: source: _init_utils.py, _init_core_state.
Rule fsdp1_shards() {
  return {"fsdp1_shards",
          [](const Problem&, const Candidate& c) {
            return knob_value(c, emitted_knobs(), kEngineKnob) == word(Engine::fsdp1) &&
                   (c.zero == 0 || shard_ranks(c) == 1);
          },
          "FSDP1 shards, and zero is {zero} with dp {dp} and hsdp {hsdp}",
          "use --zero 2 or 3 over more ranks, or the knob engine=fsdp2", kFsdp1};
}

bool has_fused_loss(const Candidate& c) {
  return knob_value(c, emitted_knobs(), kFusedLossKnob) == word(FusedLoss::flash_attn);
}

/// Source: flash_attn/losses/cross_entropy.py asks for CUDA or HIP tensors.
std::vector<Rule> loss_rules() {
  return {{"loss_needs_kernel",
           [](const Problem&, const Candidate& c) {
             return (c.loss == LossKernel::fused) != has_fused_loss(c);
           },
           "loss {loss} and the knob fused_loss do not go together: a fused loss is some package's",
           "use --loss plain, or --loss fused with the knob fused_loss=flash_attn", kFlashLoss},
          {"flash_attn_on_accelerators",
           [](const Problem& p, const Candidate& c) {
             return has_fused_loss(c) && p.cluster.device.kind == DeviceKind::cpu;
           },
           "flash-attn's loss is an accelerator's kernel, and the devices are CPUs",
           "use --loss plain without the knob fused_loss", kFlashLoss}};
}

}  // namespace

bool is_fsdp1(const Candidate& candidate) {
  return candidate.zero >= 2 &&
         knob_value(candidate, emitted_knobs(), kEngineKnob) == word(Engine::fsdp1);
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs{
      {kEngineKnob, all_words<Engine>(),
       "what shards: fully_shard (DDP at zero 0) or FullyShardedDataParallel"},
      prefetch_knob(),
      {kFusedLossKnob, all_words<FusedLoss>(),
       "whose kernel the loss fused is: flash-attn's, of the logits that the model returns"}};
  return kKnobs;
}

std::vector<Rule> emit_rules() {
  std::vector<Rule> rules{
      fsdp1_shards(),
      trains_only(kSettings),
      one_stage(kFullyShard),
      one_tensor_rank(kFullyShard),
      one_context_rank(kFullyShard),
      no_expert_ranks(kFullyShard),
      no_sequence_parallel(kFullyShard),
      no_zero_one(kFullyShard),
      replicas_divide_ranks(kFullyShard),
      equal_stages(kFullyShard),
      recompute_among({RecomputeKind::none, RecomputeKind::full, RecomputeKind::alternate,
                       RecomputeKind::first},
                      kSettings),
      offload_of_all_states(kPolicy),
      offloads_inputs_only("offload_wrapper around a checkpoint", kWrapper),
      precision_among({Precision::bf16, Precision::fp16, Precision::fp32, Precision::fp64},
                      kPolicy),
      known_knobs(emitted_knobs(), kSettings),
      prefetch_is_fsdp1s(is_fsdp1),
  };
  for (Rule& rule : loss_rules()) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace planwright::targets::fsdp
