#include "probes/worker/clock.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace planwright::worker {
namespace {

double read_clock(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double monotonic_s() { return read_clock(CLOCK_MONOTONIC); }

void sleep_until(double time) {
  const double left = time - monotonic_s();
  if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
}

// Field 22 of /proc/self/stat: start in clock ticks after boot; see proc(5). Field 2, the name in
// parentheses, may hold spaces.
std::optional<double> seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return read_clock(CLOCK_BOOTTIME) - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace planwright::worker
