#pragma once

#include "launcher/target.h"

namespace planwright::targets::deepspeed {

/// What DeepSpeed keeps in memory and can run, of a model that the user's script builds. States and
/// rules are its own; the kernels are torch's, for which the scripts stand in.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::deepspeed
