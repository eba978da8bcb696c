#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::targets::megatron_deepspeed {

/// The lines of pretrain_gpt.py's iterations, which the last rank writes, and of its memory.
const launcher::LogFormat& log_format();

}  // namespace planwright::targets::megatron_deepspeed
