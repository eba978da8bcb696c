#include "launcher/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "estimator/spec/error.h"
#include "launcher/unique_fd.h"

namespace planwright::launcher {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw WorldError("cannot " + what + " " + path + ": " + strerror(error));
}

}  // namespace

WorkFolder::WorkFolder(const std::string& root) {
  const char* const tmpdir = getenv("TMPDIR");
  path_ = !root.empty() ? root : tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp";
  path_ += "/planwright-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) fail("make a temporary folder", path_, errno);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) fail("write", path, errno);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(file.get(), text.data() + done, text.size() - done);
    if (n >= 0)
      done += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      fail("write", path, errno);
  }
  if (fsync(file.get()) != 0 && errno != EINVAL) fail("write", path, errno);
}

void replace_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + "." + std::to_string(getpid()) + ".new";
  try {
    write_file(fresh, text);
    if (rename(fresh.c_str(), path.c_str()) != 0) fail("write", path, errno);
  } catch (const WorldError&) {
    unlink(fresh.c_str());
    throw;
  }
}

}  // namespace planwright::launcher
