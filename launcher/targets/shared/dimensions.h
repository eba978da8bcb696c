#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

/// Rules about whole dimensions that a target's files have no words for. `source` says where it is
/// written that this one has not.
namespace planwright::targets {

Rule trains_only(const std::string& source);
Rule one_stage(const std::string& source);         ///< pp, vpp, schedule
Rule one_tensor_rank(const std::string& source);   ///< tp
Rule one_context_rank(const std::string& source);  ///< cp
Rule no_expert_ranks(const std::string& source);   ///< ep, etp
Rule no_sequence_parallel(const std::string& source);
Rule no_replicas(const std::string& source);   ///< hsdp
Rule equal_stages(const std::string& source);  ///< per-stage plans
/// Stages differ in their blocks only, and virtual ones not at all.
Rule stages_alike(const std::string& source);
Rule stages_hold_the_model(const std::string& source);
/// Of DeepSpeed's swapping: states and weights go to a disk part by part, as stage 3 has them.
Rule disk_needs_zero_three(const std::string& source);
Rule no_adapters(const std::string& source);
/// tp gives each rank as many heads; the second has as many key/value heads, too.
Rule tp_divides_heads(const std::string& source);
Rule tp_divides_all_heads(const std::string& source);
/// ZeRO 1 shards the optimizer's states alone.
Rule no_zero_one(const std::string& source);

Rule recompute_among(const std::vector<RecomputeKind>& kinds, const std::string& source);
Rule precision_among(const std::vector<Precision>& precisions, const std::string& source);
Rule optimizer_among(const std::vector<OptimizerKind>& kinds, const std::string& source);

/// Offload moves all that is sharded to the host, or nothing; never to a disk. FSDP's only kind.
Rule offload_of_all_states(const std::string& source);
/// Weights that the optimizer updates are fp32, or there is nothing but fp32.
Rule fp32_updates(const std::string& source);
/// hsdp divides dp and leaves more than one rank in each replica.
Rule replicas_divide_ranks(const std::string& source);

/// Ranks that one copy of the sharded states is spread over.
int shard_ranks(const Candidate& candidate);
/// The type that the optimizer updates: the master's, or the stored one.
DType updated_type(const PrecisionRecipe& recipe);

}  // namespace planwright::targets
