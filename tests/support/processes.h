#pragma once

#include <poll.h>

#include <functional>
#include <set>
#include <string>

#include "launcher/clock.h"

namespace planwright::testing {

/// Pids of live processes (zombies are dead) with `mark` in their environment: what a test started,
/// wherever it has got to since.
std::set<int> processes_marked(const std::string& mark);

/// Whether `condition` comes true within `seconds`.
inline bool comes_true(const std::function<bool()>& condition, double seconds) {
  const double until = launcher::monotonic_s() + seconds;
  while (!condition()) {
    if (launcher::monotonic_s() > until) return false;
    poll(nullptr, 0, 20);
  }
  return true;
}

}  // namespace planwright::testing
