#pragma once

#include <string>

#include "launcher/probe_runner.h"

namespace planwright::testing {

/// Runs the CPU worker and the supervisor of this build. `folder` is where they are: tests and
/// benches have it as PLANWRIGHT_BIN_DIR.
launcher::RunOptions built_programs(const std::string& folder);

}  // namespace planwright::testing
