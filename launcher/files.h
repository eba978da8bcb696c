#pragma once

#include <string>
#include <string_view>

#include "launcher/unique_fd.h"

namespace planwright::launcher {

/// A fresh temporary folder, removed with everything in it at the end. One that a killed process
/// left is removed an hour later by whoever makes the next.
class WorkFolder {
 public:
  /// Below `root`, or $TMPDIR, or /tmp. A WorldError if it cannot be made.
  explicit WorkFolder(const std::string& root);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd lock_;  ///< on the folder itself: its owner lives
};

/// Permissions, of which the umask takes away.
constexpr int kFileMode = 0644;
constexpr int kProgramMode = 0755;

/// Writes a new file; a WorldError that names path and reason if it cannot be written whole.
void write_file(const std::string& path, const std::string& text, int mode = kFileMode);

/// What is said of a file that is there already and would be another one.
constexpr std::string_view kOtherContent = "exists with other content, which would be lost";

/// Why no file can be at `path`, as the end of a sentence about it; empty if one can, in a folder
/// that may have to be made first. What stands there already is not looked into.
std::string unwritable(const std::string& path);

/// Replaces `path` in one step: readers see the old text or the new one, also after a crash.
void replace_file(const std::string& path, const std::string& text, int mode = kFileMode);

}  // namespace planwright::launcher
