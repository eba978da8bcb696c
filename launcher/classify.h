#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/outcome.h"
#include "probes/protocol/probe_report.h"

namespace planwright::launcher {

/// How one rank ended, as far as the launcher knows.
struct RankFate {
  int rank = 0;
  std::string not_started;  ///< why its program could not be executed; empty if it could
  int code = 0;
  int signal = 0;        ///< 0: it ended with `code`
  bool ordered = false;  ///< by the launcher's order, hence no cause of anything
  std::string log_tail;
  std::optional<probes::RankReport> report;
  std::string report_problem;  ///< why there is none, if a file is there
};

enum class StoppedBy { nobody, watchdog, deadline };

/// How a whole run ended.
struct RunEnd {
  std::vector<RankFate> ranks;  ///< in the order in which they ended
  StoppedBy stopped_by = StoppedBy::nobody;
  double limit_s = 0;       ///< the watchdog's or the deadline's
  int silent_rank = 0;      ///< which gave no sign of life for the longest time
  bool oom_killed = false;  ///< the kernel's out-of-memory count rose during the run
  bool supervisor_lost = false;
};

/// CLI.md's name of the end, with the rank that caused it: the first one whose end no other rank
/// explains. nullopt if every rank ended well.
std::optional<Outcome> failure_of(const RunEnd& end);

/// Whether the kernel ended it, or what a shell ran last, for want of host memory.
bool killed_for_memory(const RankFate& fate, bool oom_killed);

/// What a log's end says that a program of its own died of: host memory, or a host that lacks
/// something; crashed if it says neither.
OutcomeKind kind_of_death(const RankFate& fate, bool oom_killed);

/// What a record keeps of a log's end, and the last line of it that is not empty.
std::string kept_tail(const std::string& log);
std::string last_line(const std::string& log);

/// The reports' fingerprints as one; where ranks differ, the values in rank order joined by " | ".
std::map<std::string, std::string> merge_environment(const std::vector<probes::RankReport>& ranks);

}  // namespace planwright::launcher
