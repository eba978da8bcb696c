#pragma once

#include <string>

#include "estimator/spec/target_traits.h"

/// What Accelerate keeps and does, for every target that runs under it.
namespace planwright::targets::accelerate {

struct Use {
  bool (*under_deepspeed)(const Candidate&) = nullptr;  ///< else under DDP or FSDP
  bool has_momentum = true;                             ///< of the optimizer sgd
  bool (*replicates_one)(const Problem&) = nullptr;     ///< null: DDP takes several ranks
  bool (*fused_adamw)(const Candidate&) = nullptr;      ///< null: torch's default
  bool (*fsdp1)(const Candidate&) = nullptr;            ///< null: fully_shard
  /// Whether a checkpoint is transformers' own, and runs a block again as a whole; else torch's.
  bool (*reentrant)(const Candidate&) = nullptr;
};

/// Traits but for rules, knobs and what the target has more of.
TargetTraits states(const std::string& name, const std::string& version, const Use& use);

}  // namespace planwright::targets::accelerate
