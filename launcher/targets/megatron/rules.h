#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::megatron {

/// Whether gradients are reduced, and sharded states' weights gathered, beside the passes.
constexpr const char* kOverlapKnob = "overlap_grad_reduce";
constexpr const char* kExchangeKnob = "cp_comm_type";
constexpr const char* kDeterministicKnob = "deterministic_mode";
constexpr const char* kDispatcherKnob = "moe_token_dispatcher_type";
constexpr const char* kGroupsKnob = "moe_grouped_gemm";
constexpr const char* kMasksKnob = "create_attention_mask_in_dataloader";
constexpr const char* kCoreKnob = "megatron_core";
constexpr const char* kSumsKnob = "gradient_accumulation_fusion";
constexpr const char* kFp8RecipeKnob = "fp8_recipe";
constexpr const char* kFp8WeightsKnob = "fp8_param_gather";

/// How context ranks exchange what they attend to: the knob's, or p2p.
Exchange exchange(const Candidate& candidate);

/// Whether Megatron-FSDP shards, and not the distributed optimizer.
bool is_fsdp(const Candidate& candidate);
bool overlaps(const Candidate& candidate);

TeModules te_modules(const Candidate& candidate);

/// Those whose inputs a plan that offloads activations sends to the host.
OffloadedModules offloaded_modules(const Problem& problem, const Candidate& candidate);

const std::vector<Knob>& emitted_knobs();

/// What Megatron-LM refuses, drops in silence or fails at, and what these files have no words for.
std::vector<Rule> emit_rules();

/// Megatron-LM runs it and the files say it, but this version cannot estimate it.
std::vector<Rule> estimable_layouts();

}  // namespace planwright::targets::megatron
