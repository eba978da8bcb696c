#pragma once

#include "launcher/target.h"

namespace planwright::targets::torchtitan {

/// What torchtitan keeps in memory and can run. On CPUs scripts stand in for its modules.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::torchtitan
