#pragma once

#include <toml++/toml.h>

#include <string>

namespace planwright::cli {

/// An InputError with line and column if `text`, which stands in `path`, is not TOML.
toml::table parse_toml(const std::string& text, const std::string& path);

}  // namespace planwright::cli
