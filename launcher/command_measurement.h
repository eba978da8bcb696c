#pragma once

#include <optional>

#include "launcher/command_end.h"
#include "launcher/command_probe.h"
#include "launcher/logs/step_times.h"

/// What each witness of a command has measured: nullopt if it has no time of a step behind the
/// warm-up. Of memory a witness may know nothing.
namespace planwright::launcher {

/// The script's own word on time and memory, over what was seen of its ranks.
std::optional<Measurement> reported_measurement(const CommandJob& job, const CommandEnd& end);

/// Of every rank that should train, or nothing.
std::optional<Measurement> observed_measurement(const CommandJob& job, const CommandEnd& end);

/// Of the ranks whose lines state their memory; lines that name no rank are the first one's.
std::optional<Measurement> logged_measurement(const CommandJob& job, const CommandEnd& end);

/// The times that the last one is made of.
std::optional<LoggedStepTimes> logged_times(const CommandJob& job, const LogSummary& log);

}  // namespace planwright::launcher
