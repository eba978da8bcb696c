#pragma once

#include <string>

#include "launcher/command_end.h"
#include "launcher/command_probe.h"

/// Of a command that ended as if all were well, and that nobody has measured.
namespace planwright::launcher {

/// What every witness was short of, and how the command ended.
std::string why_nothing_measured(const CommandJob& job, const CommandEnd& end);

/// "1 of 2 ranks were seen to step an optimizer", and what to do about it; empty if all were, or
/// none.
std::string why_ranks_are_missing(const CommandJob& job, const CommandEnd& end);

}  // namespace planwright::launcher
