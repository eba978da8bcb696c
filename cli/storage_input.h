#pragma once

#include <optional>
#include <string>

#include "cli/settings.h"
#include "estimator/spec/problem.h"

namespace planwright::cli {

/// [storage]: the database, `planwright.db` here if none is named.
std::string storage_path(const Settings& settings);

/// The study's name; by default the first 12 digits of the problem's hash.
std::string study_name(const Settings& settings, const Problem& problem);

/// The name if one was given, else empty.
std::string given_study(const Settings& settings);

}  // namespace planwright::cli
