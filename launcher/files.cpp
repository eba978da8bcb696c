#include "launcher/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "estimator/spec/error.h"

namespace planwright::launcher {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw WorldError("cannot " + what + " " + path + ": " + strerror(error));
}

constexpr std::string_view kFolderPattern = "planwright-XXXXXX";
/// Longer than a folder is without a lock while it is made, by far.
constexpr std::time_t kAbandoned_s = 3600;

/// Empty if somebody else has it, or it is no folder of this user's.
UniqueFd lock_folder(const std::string& path) {
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (folder && (fstat(folder.get(), &facts) != 0 || facts.st_uid != getuid() ||
                 flock(folder.get(), LOCK_EX | LOCK_NB) != 0)) {
    folder.reset();
  }
  return folder;
}

bool is_old(const std::string& path) {
  struct stat facts {};
  return lstat(path.c_str(), &facts) == 0 && facts.st_mtime + kAbandoned_s < std::time(nullptr);
}

/// A process that is killed between making its folder and telling its supervisor of it leaves it.
void remove_abandoned(const std::string& root) {
  const std::string_view stem = kFolderPattern.substr(0, kFolderPattern.find('X'));
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename();
    if (name.size() != kFolderPattern.size() || name.rfind(stem, 0) != 0) continue;
    if (!is_old(entry.path())) continue;
    const UniqueFd lock = lock_folder(entry.path());
    if (lock) std::filesystem::remove_all(entry.path(), ignored);
  }
}

/// The folder of a file, or what of the way to it is there.
std::filesystem::path nearest_there(const std::string& path) {
  std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  while (folder.has_relative_path() && !std::filesystem::exists(folder, error)) {
    folder = folder.parent_path();
  }
  return folder;
}

}  // namespace

WorkFolder::WorkFolder(const std::string& root) {
  const char* const tmpdir = getenv("TMPDIR");
  path_ = !root.empty() ? root : tmpdir != nullptr && *tmpdir != '\0' ? tmpdir : "/tmp";
  remove_abandoned(path_);
  path_ += "/" + std::string(kFolderPattern);
  if (mkdtemp(path_.data()) == nullptr) fail("make a temporary folder", path_, errno);
  lock_ = lock_folder(path_);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& text, int mode) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
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

std::string unwritable(const std::string& path) {
  std::error_code error;
  if (path.empty()) return "is no file's name";
  if (path.ends_with('/') || std::filesystem::is_directory(path, error)) {
    return "is a folder: name a file in it";
  }
  const std::filesystem::path folder = nearest_there(path);
  if (!std::filesystem::is_directory(folder, error)) {
    return "cannot be written: " + folder.string() + " is not a folder";
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return "cannot be written: nothing may be made in " + folder.string() + " (" + strerror(errno) +
           ")";
  }
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return "is there, and is no file";
  }
  return "";
}

void replace_file(const std::string& path, const std::string& text, int mode) {
  const std::string fresh = path + "." + std::to_string(getpid()) + ".new";
  try {
    write_file(fresh, text, mode);
    if (rename(fresh.c_str(), path.c_str()) != 0) fail("write", path, errno);
  } catch (const WorldError&) {
    unlink(fresh.c_str());
    throw;
  }
}

}  // namespace planwright::launcher
