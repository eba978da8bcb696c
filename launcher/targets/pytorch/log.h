#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::targets::pytorch {

/// The lines of litgpt's commands.
const launcher::LogFormat& log_format();

}  // namespace planwright::targets::pytorch
