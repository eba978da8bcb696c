#pragma once

#include "launcher/target.h"

namespace planwright::targets::pytorch {

/// What a plain loop over a model of litgpt's modules keeps in memory and can run: on one device,
/// under DistributedDataParallel or FullyShardedDataParallel, in Lightning Fabric's precisions.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::pytorch
