#pragma once

#include "launcher/command_end.h"
#include "launcher/command_probe.h"

namespace planwright::launcher {

/// What a command measured, by the best witness that has figures, or how it failed. A run that
/// measured its steps is a good one, however it died while it shut down; that is worth a warning.
/// Not so one that trained to no number, whoever says so; nor one that only its log speaks for, and
/// that ran out of memory: it was not ended behind its measured steps, but went on until it failed.
CommandOutcome command_verdict(const CommandJob& job, const CommandEnd& end);

}  // namespace planwright::launcher
