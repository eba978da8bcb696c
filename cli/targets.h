#pragma once

#include <string>
#include <vector>

#include "cli/setting.h"
#include "launcher/target.h"

namespace planwright::cli {

/// Names of the targets that this version has.
std::vector<std::string> target_names();

/// An InputError with the nearest name if there is no such target.
const launcher::Target& find_target(const Setting& name);

}  // namespace planwright::cli
