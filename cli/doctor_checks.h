#pragma once

#include <vector>

#include "cli/check.h"
#include "cli/console.h"
#include "cli/settings.h"

namespace planwright::cli {

/// Everything that CPU measurements need, and what there is beside them. Starts ranks for a few
/// seconds.
std::vector<Check> run_checks(const Settings& settings);

/// The self-test of this host's first GPU, as soon as nobody else measures on its devices. Without
/// a device, or a worker for it, the check that says so is the last.
std::vector<Check> run_gpu_checks(const Settings& settings, const Console& console);

}  // namespace planwright::cli
