#pragma once

namespace planwright::cli {

/// What SIGINT, SIGTERM and SIGHUP do. Nothing is printed by any.
enum class OnSignal {
  leave,  ///< the process ends at once with 130: nothing is under way that would have to be kept
  ask,    ///< a flag is set, which the launcher and the loop poll; a second signal does no more
};

/// Also ignores SIGPIPE, so that a closed pipe is an error of the write and not the end of a study.
void on_signal(OnSignal what);

/// Whether a signal came since on_signal(ask).
bool interrupted();

}  // namespace planwright::cli
