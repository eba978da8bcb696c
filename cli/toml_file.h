#pragma once

#include <toml++/toml.h>

#include <string>

namespace planwright::cli {

/// Parses a whole file; an InputError with line and column if it is missing, a folder or not TOML.
toml::table parse_toml_file(const std::string& path);

}  // namespace planwright::cli
