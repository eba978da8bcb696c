#pragma once

#include "launcher/target.h"

namespace planwright::targets::hf_trainer {

/// What Hugging Face's Trainer keeps in memory and can run: DDP, FSDP2 or DeepSpeed by the knob
/// `engine`. The kernels are torch's, for which the scripts stand in.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::hf_trainer
