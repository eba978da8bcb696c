#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/setting.h"
#include "launcher/target.h"

namespace planwright::cli {

/// Names of the targets that this version has.
std::vector<std::string> target_names();

/// An InputError with the nearest name if there is no such target.
std::shared_ptr<const launcher::Target> find_target(const Setting& name);

/// The same, and the target that a user's command is. `place` is where the command stands.
std::shared_ptr<const launcher::Target> find_target(const Setting& name,
                                                    const launcher::UserCommand& user,
                                                    const Setting& place);

}  // namespace planwright::cli
