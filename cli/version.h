#pragma once

#include <string>

namespace planwright::cli {

/// Version, git revision, and what the workers were built for; one per line.
std::string version_text();

}  // namespace planwright::cli
