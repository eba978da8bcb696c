#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::targets::nanotron {

/// The line of each iteration and that of rank 0 about its memory. Time and rates have three
/// digits; MiB is said.
const launcher::LogFormat& log_format();

}  // namespace planwright::targets::nanotron
