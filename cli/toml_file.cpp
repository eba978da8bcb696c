#include "cli/toml_file.h"

#include <fmt/core.h>

#include <filesystem>

#include "estimator/spec/error.h"

namespace planwright::cli {
namespace {

namespace fs = std::filesystem;

void require_readable_file(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) throw InputError({path, "", "", "there is no such file", ""});
  if (fs::is_directory(status)) throw InputError({path, "", "", "is a folder, not a file", ""});
  if (!fs::is_regular_file(status)) throw InputError({path, "", "", "is not a regular file", ""});
}

}  // namespace

toml::table parse_toml_file(const std::string& path) {
  require_readable_file(path);
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    throw InputError(
        {fmt::format("{}:{}:{}", path, error.source().begin.line, error.source().begin.column), "",
         "", fmt::format("is not TOML: {}", error.description()), ""});
  }
}

}  // namespace planwright::cli
