#pragma once

#include "launcher/target.h"

namespace planwright::targets::megatron_deepspeed {

/// What Megatron-DeepSpeed keeps in memory and can run: Megatron's blocks before Transformer Engine
/// in DeepSpeed's pipeline engine, as BLOOM was trained.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::megatron_deepspeed
