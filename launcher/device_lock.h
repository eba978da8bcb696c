#pragma once

#include <functional>
#include <string>

#include "launcher/unique_fd.h"

namespace planwright::launcher {

/// The right to measure on this host's devices. Two probes at once would slow each other down and
/// record it as if it were the plan's, so one process of a user holds it at a time, for a probe or
/// a benchmark. It is given back when this object or its process ends, however it ends.
class DeviceLock {
 public:
  /// Holds nothing.
  DeviceLock() = default;

  /// Waits until nobody else holds it. `tell` hears of the holder ("process 1234") once, if there
  /// is one; Interrupted if `interrupted` says so meanwhile. Where the file cannot be made, nothing
  /// is held and nobody waits.
  static DeviceLock wait(const std::function<bool()>& interrupted,
                         const std::function<void(const std::string& holder)>& tell);

  bool held() const { return static_cast<bool>(file_); }

 private:
  explicit DeviceLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

/// ${XDG_RUNTIME_DIR:-/tmp}/planwright-UID.lock
std::string device_lock_path();

}  // namespace planwright::launcher
