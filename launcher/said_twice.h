#pragma once

#include <string>
#include <vector>

#include "launcher/target.h"
#include "launcher/user_command.h"

namespace planwright::launcher {

/// Options among the user's own words that the configuration's command, or a TOML file of it, gives
/// too: of most parsers the last one holds, which is the user's. As the user wrote them, without
/// values.
std::vector<std::string> said_twice(const LaunchConfig& config, const UserCommand& user);

}  // namespace planwright::launcher
