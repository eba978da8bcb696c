#pragma once

#include <optional>
#include <string>
#include <vector>

/// Whether a measurement had the machine to itself. A disturbed one is still a measurement: this is
/// for a warning.
namespace planwright::launcher {

/// CPU time in seconds, since moments that do not matter.
struct CpuUse {
  double at_s = 0;       ///< CLOCK_MONOTONIC
  double machine_s = 0;  ///< of everybody on this process's CPUs, stolen time included
  double own_s = 0;      ///< of this process and of its children that have ended
  int cpus = 0;          ///< 0: /proc/stat cannot be read, or a quota makes it say nothing
};

/// `root` is where /proc is; tests give a tree of their own.
CpuUse cpu_use(const std::string& root = "/");

/// The share of the CPUs that others used between two moments, 0 to 1. nullopt if it is not known,
/// or too little time has passed for the kernel's ticks to say.
std::optional<double> share_of_others(const CpuUse& begin, const CpuUse& end);

/// "other processes used 37 % of the CPUs; steps took 210 to 480 ms", what of it is worth a word;
/// nullopt if nothing is. `steps_s` may be empty.
std::optional<std::string> disturbance_text(std::optional<double> others,
                                            const std::vector<double>& steps_s);

}  // namespace planwright::launcher
