#include "launcher/device_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "launcher/probe_runner.h"

namespace planwright::launcher {
namespace {

constexpr int kPoll_ms = 100;

bool try_lock(int fd) {
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// For whoever waits; a lock without it is as good.
void write_holder(int fd) {
  const std::string text = std::to_string(getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

std::string holder(int fd) {
  std::array<char, 16> text{};
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  if (n <= 0) return "another process";
  return "process " + std::string(text.data(), static_cast<std::size_t>(n));
}

}  // namespace

std::string device_lock_path() {
  const char* folder = std::getenv("XDG_RUNTIME_DIR");
  const std::string in = folder == nullptr || *folder == '\0' ? "/tmp" : folder;
  return in + "/planwright-" + std::to_string(getuid()) + ".lock";
}

DeviceLock DeviceLock::wait(const std::function<bool()>& interrupted,
                            const std::function<void(const std::string& holder)>& tell) {
  UniqueFd file(open(device_lock_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return {};
  for (bool told = false; !try_lock(file.get()); told = true) {
    if (errno != EWOULDBLOCK) return {};
    if (!told && tell) tell(holder(file.get()));
    if (interrupted && interrupted()) throw Interrupted();
    poll(nullptr, 0, kPoll_ms);
  }
  write_holder(file.get());
  return DeviceLock(std::move(file));
}

}  // namespace planwright::launcher
