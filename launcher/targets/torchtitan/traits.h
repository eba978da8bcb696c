#pragma once

#include "launcher/target.h"

namespace planwright::targets::torchtitan {

/// What torchtitan keeps in memory and can run. The kernels are torch's, for which the scripts
/// stand in.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::torchtitan
