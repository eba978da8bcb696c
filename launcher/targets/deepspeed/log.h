#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::targets::deepspeed {

/// The throughput line, the timers of wall_clock_breakdown, the pipeline engine's line and
/// see_memory_usage, of 0.3 to 0.19. Samples are those of all ranks.
const launcher::LogFormat& log_format();

}  // namespace planwright::targets::deepspeed
