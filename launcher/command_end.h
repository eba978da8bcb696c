#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/classify.h"
#include "launcher/command_report.h"
#include "launcher/logs/log_summary.h"
#include "launcher/observer_report.h"

namespace planwright::launcher {

/// Where a run leaves its figures.
struct CommandFolders {
  std::string report;     ///< the file of PLANWRIGHT_REPORT
  std::string observed;   ///< the observer's folder
  std::string log;        ///< what it prints, its beginning and its end
  std::string temporary;  ///< TMPDIR
};

/// All that is known of a run of a command that has ended.
struct CommandEnd {
  RunEnd run;  ///< of one rank: the command
  double run_s = 0;
  std::optional<double> others;  ///< share of the CPUs that other processes used meanwhile
  WatchedProcesses watched;
  std::vector<ObservedProcess> observed;
  std::optional<CommandReport> report;
  LogSummary log;
};

/// How the command itself ended; null if nobody was left to see it.
const RankFate* fate_of_command(const CommandEnd& end);

/// By itself, and without a word of trouble.
bool ended_well(const CommandEnd& end);

/// "ended with exit code 3"; of -9 "was killed by signal 9".
std::string how_it_ended(int code);
std::string how_it_ended(const RankFate& fate);

}  // namespace planwright::launcher
