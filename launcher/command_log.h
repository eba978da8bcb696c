#pragma once

#include <string>
#include <string_view>

#include "launcher/logs/log_reader.h"

namespace planwright::launcher {

/// What a command has printed, by the file that the supervisor left at `path`: its first MiB and
/// its last 64 KiB (group_protocol.h), between which `reader` is told of a gap. The beginning holds
/// the warm-up and the steps behind it, some thousands of lines of them; the end holds the run's
/// totals, and the reason why it died. Of a file that could not be written, `tail` is read.
LogSummary read_command_log(const std::string& path, std::string_view tail, LogReader reader);

}  // namespace planwright::launcher
