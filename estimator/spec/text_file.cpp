#include "estimator/spec/text_file.h"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>

#include "estimator/spec/error.h"

namespace planwright {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path) {
  throw WorldError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
}

/// Stops behind `most`, for files in /proc whose length nobody knows before.
std::string read_beyond(const std::string& path, std::size_t most) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) fail(path);
  std::string text;
  std::array<char, 65536> bytes;
  while (text.size() <= most) {
    text.append(bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file.get()));
    if (std::feof(file.get()) != 0) break;
    if (std::ferror(file.get()) == 0) continue;
    if (errno != EINTR) fail(path);
    std::clearerr(file.get());
  }
  return text;
}

/// Why there is nothing at `path` to be read; empty if there is a regular file.
std::string refusal(const std::string& path) {
  std::error_code error;
  switch (fs::status(path, error).type()) {
    case fs::file_type::regular:
      return "";
    case fs::file_type::directory:
      return "is a folder, not a file";
    case fs::file_type::not_found:
      return "there is no such file";
    case fs::file_type::none:
      return fmt::format("cannot be looked at: {}", error.message());
    default:
      return "is not a regular file";
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  return read_beyond(path, std::numeric_limits<std::size_t>::max());
}

std::string read_given_file(const std::string& path, std::size_t most) {
  const std::string rule = refusal(path);
  if (!rule.empty()) throw InputError({path, "", "", rule, ""});
  std::string text = read_beyond(path, most);
  if (text.size() > most) {
    throw InputError({path, "", "", fmt::format("is longer than {} MiB", most >> 20), ""});
  }
  return text;
}

}  // namespace planwright
