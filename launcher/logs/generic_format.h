#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::launcher {

/// What people's own scripts write, by the names that most of them use: for any program, alone or
/// behind the format of a framework.
const LogFormat& generic_log_format();

}  // namespace planwright::launcher
