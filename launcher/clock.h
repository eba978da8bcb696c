#pragma once

#include <time.h>

namespace planwright::launcher {

/// CLOCK_MONOTONIC, which all processes of a machine share: a rank's time stamps can be compared
/// with those of the supervisor and of the tuner.
inline double monotonic_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace planwright::launcher
