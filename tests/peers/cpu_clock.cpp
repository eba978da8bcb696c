#include <time.h>

#include <algorithm>

#include "probes/worker/clock.h"

/// clock.h in CPU seconds of this process, plus those that it should have slept: what a step costs,
/// whatever else the machine does. Linked before the worker's library it takes the place of
/// clock.cpp. Waiting for another rank costs nothing, and threads that spin cost too much.
namespace planwright::worker {
namespace {

double slept_s = 0;

}  // namespace

double monotonic_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return slept_s + static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void sleep_until(double time) { slept_s += std::max(0.0, time - monotonic_s()); }

std::optional<double> seconds_since_process_start() { return std::nullopt; }

}  // namespace planwright::worker
