#pragma once

#include <functional>
#include <map>

#include "launcher/classify.h"
#include "launcher/probe_runner.h"
#include "launcher/process_group.h"

namespace planwright::launcher {

struct WatchedRun {
  RunEnd end;                       ///< without reports
  std::map<int, double> started_s;  ///< by rank, CLOCK_MONOTONIC
};

/// Follows the ranks until all of them have ended. Tells them to end at the deadline, or when one
/// gives no sign of life for the watchdog's time. Throws Interrupted as soon as the user asks; the
/// group's destructor then ends them. `sign_of_life`, if there is one, is asked ten times a second
/// whether ranks that know nothing of us have shown any.
WatchedRun watch(ProcessGroup& group, const RunOptions& options,
                 const std::function<bool()>& sign_of_life = {});

}  // namespace planwright::launcher
