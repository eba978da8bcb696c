#include "cli/toml_text.h"

#include <fmt/core.h>

#include "estimator/spec/error.h"

namespace planwright::cli {

toml::table parse_toml(const std::string& text, const std::string& path) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InputError(
        {fmt::format("{}:{}:{}", path, error.source().begin.line, error.source().begin.column), "",
         "", fmt::format("is not TOML: {}", error.description()), ""});
  }
}

}  // namespace planwright::cli
