#pragma once

#include "launcher/target.h"

namespace planwright::targets::megatron {

/// Megatron-LM with Megatron Core and Transformer Engine.
const TargetTraits& traits();

launcher::Target target();

}  // namespace planwright::targets::megatron
