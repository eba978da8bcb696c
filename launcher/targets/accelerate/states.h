#pragma once

#include <string>

#include "estimator/spec/target_traits.h"

/// What Accelerate keeps and does, for every target that runs under it.
namespace planwright::targets::accelerate {

struct Use {
  bool (*under_deepspeed)(const Candidate&) = nullptr;  ///< else under DDP or FSDP
  bool has_momentum = true;                             ///< of the optimizer sgd
  bool fused_adamw = false;                             ///< else torch's default
};

/// Traits but for rules, knobs and what the target has more of.
TargetTraits states(const std::string& name, const std::string& version, const Use& use);

}  // namespace planwright::targets::accelerate
