#pragma once

#include <string>
#include <vector>

#include "cli/settings.h"

namespace planwright::cli {

/// One thing that was looked at. `fix` is what to do about it; empty if there is nothing to do.
struct Check {
  std::string name;
  bool ok = false;
  std::string detail;
  std::string fix;
  bool needed = true;  ///< for measurements on CPUs
};

/// Everything that CPU measurements need, and what there is beside them. Starts ranks for a few
/// seconds.
std::vector<Check> run_checks(const Settings& settings);

}  // namespace planwright::cli
