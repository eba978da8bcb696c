#include "cli/toml_file.h"

#include <fmt/core.h>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"

namespace planwright::cli {

toml::table parse_toml_file(const std::string& path) {
  const std::string text = read_given_file(path);
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw InputError(
        {fmt::format("{}:{}:{}", path, error.source().begin.line, error.source().begin.column), "",
         "", fmt::format("is not TOML: {}", error.description()), ""});
  }
}

}  // namespace planwright::cli
