#pragma once

#include "launcher/target.h"

namespace planwright::targets::fsdp {

/// What a script that wraps its blocks in fully_shard, or its model in DistributedDataParallel,
/// keeps in memory and can run. The kernels are torch's, for which the scripts stand in.
const TargetTraits& traits();

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::fsdp
