#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "launcher/probe_runner.h"

namespace planwright::launcher {

/// One job's part of its measured steps.
struct Turn {
  std::size_t job = 0;
  int steps = 0;
};

/// Runs as many of the turns as it comes, at least the first, and says how each ended.
using RunTurns = std::function<std::vector<Outcome>(const std::vector<Turn>&)>;

/// Jobs whose times are to be compared: in each of `rounds` every job takes its part of its
/// `steps`, and every second round goes backwards, so that a machine that drifts does it to all of
/// them alike. An outcome per job: what all its steps measured (`pooled`), or how its first bad
/// turn ended, after which it has no further ones.
std::vector<Outcome> in_turns(const std::vector<int>& steps, int rounds, const RunTurns& run);

/// Measures jobs whose times are to be compared, in one set of processes: in each of `rounds` every
/// job takes its part of its measured steps, behind its own warm-up, and every second round goes
/// backwards, so that a machine that drifts does it to all of them alike. A job has as many steps
/// as rounds at least.
///
/// An outcome per job, in order: what all its steps measured (`pooled`), or how its first bad turn
/// ended. That job has no further turns, the others go on with what they have, in fresh processes.
/// The deadline of `options` holds for all turns of a job together, on average.
std::vector<Outcome> run_in_turns(const std::vector<probes::TrainJob>& jobs, int rounds,
                                  const RunOptions& options);

/// The measurement that several of one job make together, in their order: all their steps and
/// losses, the median of the steps, each rank's largest peaks, what it held at the end of the last.
/// The RSS is the processes', whichever job they ran.
Measurement pooled(const std::vector<Measurement>& parts);

}  // namespace planwright::launcher
