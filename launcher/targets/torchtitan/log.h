#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::targets::torchtitan {

/// The step line of 0.1.0 to 0.2.2 and after: tokens are those of one device, memory is the
/// reserved peak since the line before. Lines of a validation are no steps.
const launcher::LogFormat& log_format();

}  // namespace planwright::targets::torchtitan
