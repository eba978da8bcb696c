#pragma once

#include <optional>

namespace planwright::worker {

/// CLOCK_MONOTONIC, in seconds: comparable between the processes of a host.
double monotonic_s();

/// Returns when monotonic_s() has come to `time`.
void sleep_until(double time);

/// Since this process was started, to a hundredth of a second; nullopt if /proc does not say.
std::optional<double> seconds_since_process_start();

}  // namespace planwright::worker
