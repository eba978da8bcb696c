#pragma once

#include <optional>

#include "launcher/command_end.h"
#include "launcher/command_probe.h"

namespace planwright::launcher {

/// Why a run measured nothing: what the observer saw, else what the log says, else how the command
/// ended.
Outcome command_failure(const CommandJob& job, const CommandEnd& end);

/// cause_in_log, with what the kernel said of the run.
std::optional<LoggedCause> cause_of(const CommandEnd& end);

bool is_memory(const LoggedCause& cause);

}  // namespace planwright::launcher
