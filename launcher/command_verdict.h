#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/classify.h"
#include "launcher/command_probe.h"
#include "launcher/command_report.h"
#include "launcher/observer_report.h"

namespace planwright::launcher {

/// Where a run leaves its figures.
struct CommandFolders {
  std::string report;    ///< the file of PLANWRIGHT_REPORT
  std::string observed;  ///< the observer's folder
  std::string log;       ///< what it prints, its beginning and its end
};

/// All that is known of a run that has ended.
struct CommandEnd {
  RunEnd run;  ///< of one rank: the command
  std::vector<ObservedProcess> observed;
  std::optional<CommandReport> report;
};

/// What it measured, or how it failed. A run that measured its steps is a good one, however it died
/// while it shut down; that is worth a warning.
CommandOutcome command_verdict(const CommandJob& job, const CommandEnd& end);

}  // namespace planwright::launcher
