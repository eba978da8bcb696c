#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::targets::megatron {

/// The line of the last rank for each logged iteration, and that of each model rank about its
/// memory since the start, of 0.12 to 0.19. MB is MiB.
const launcher::LogFormat& log_format();

}  // namespace planwright::targets::megatron
