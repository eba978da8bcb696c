#include "studies/storage_path.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "estimator/spec/error.h"

namespace planwright::studies {
namespace {

struct NetworkFileSystem {
  unsigned long magic;
  std::string_view name;
};

// Source: statfs(2) and linux/magic.h; GPFS and BeeGFS from their kernel modules. FUSE may be
// local, but what is mounted so for sharing (sshfs, s3fs) has no usable shared memory either.
constexpr NetworkFileSystem kNetworkFileSystems[] = {
    {0x6969, "NFS"},        {0x517B, "SMB"},       {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB2"},
    {0x0BD00BD0, "Lustre"}, {0x00C36400, "Ceph"},  {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
    {0x5346414F, "AFS"},    {0x6B414653, "AFS"},   {0x73757245, "Coda"}, {0x01021997, "9P"},
    {0x65735546, "FUSE"},   {0x7461636F, "OCFS2"}, {0x01161970, "GFS2"}, {0x20030528, "OrangeFS"},
    {0x786F4256, "vboxsf"},
};

[[noreturn]] void refuse(const std::string& path, const std::string& rule) {
  throw InputError({path, "", "", rule + "; give another --storage", ""});
}

std::filesystem::path folder_of(const std::string& path) {
  return std::filesystem::absolute(path).parent_path();
}

/// Why a file or folder may not be written to, after access() said so.
std::string write_refusal() {
  return errno == EROFS ? "lies on a read-only file system"
                        : fmt::format("may not be written to ({})", std::strerror(errno));
}

void require_folder(const std::string& path) {
  const std::filesystem::path folder = folder_of(path);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    refuse(path, fmt::format("there is no folder {}", folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse(path, fmt::format("its folder {} {}", folder.string(), write_refusal()));
  }
}

void require_file(const std::string& path, OpenMode mode, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) refuse(path, "is a folder, not a file");
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file");
  if (::access(path.c_str(), R_OK) != 0) {
    refuse(path, fmt::format("may not be read ({})", std::strerror(errno)));
  }
  if (mode == OpenMode::read_only) return;
  if (::access(path.c_str(), W_OK) != 0) refuse(path, write_refusal());
  require_folder(path);  // for the journal beside it
}

}  // namespace

void require_path(const std::string& path, OpenMode mode) {
  if (path.empty()) refuse(path, "an empty path is no file");
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return require_file(path, mode, status);
  if (errno != ENOENT) refuse(path, std::strerror(errno));
  if (mode == OpenMode::create) return require_folder(path);
  refuse(path, "there is no such file (`planwright tune` makes it)");
}

std::string_view network_name(unsigned long magic) {
  for (const auto& each : kNetworkFileSystems) {
    if (each.magic == magic) return each.name;
  }
  return "";
}

std::string network_file_system(const std::string& path) {
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0 && ::statfs(folder_of(path).c_str(), &status) != 0) {
    return "";
  }
  // f_type is signed and sign-extended on some machines; a magic has 32 bits.
  return std::string(network_name(static_cast<unsigned long>(status.f_type) & 0xFFFFFFFFUL));
}

}  // namespace planwright::studies
