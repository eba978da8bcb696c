#include "probes/worker/report_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace planwright::worker {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path) {
  throw std::runtime_error("cannot " + action + " " + path + ": " + std::strerror(errno));
}

void write_all(int file, const std::string& text, const std::string& path) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno != EINTR) fail("write", path);
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  if (fsync(file) != 0) fail("flush", path);
}

}  // namespace

void write_whole(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail("create", temporary);
  try {
    write_all(file, text, temporary);
  } catch (...) {
    close(file);
    throw;
  }
  close(file);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail("rename to", path);
}

}  // namespace planwright::worker
