#pragma once

#include "launcher/target.h"

namespace planwright::targets::accelerate {

/// What a script with an Accelerator keeps in memory and can run: DDP, FSDP or DeepSpeed by the
/// knob `engine`. The kernels are torch's, for which the scripts stand in.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::accelerate
