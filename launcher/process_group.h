#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

#include "launcher/group_protocol.h"
#include "launcher/line_splitter.h"
#include "launcher/unique_fd.h"

namespace planwright::launcher {

/// The ranks of one run, seen from the tuner: owns the supervisor that owns the ranks. When this
/// object or its process ends, however it ends, everything below it is killed.
class ProcessGroup {
 public:
  /// Starts the ranks. A WorldError if the supervisor's program cannot be executed; a rank that
  /// cannot is a RankNotStarted event.
  ProcessGroup(const std::string& supervisor, const GroupSpec& spec);
  /// Kills what still runs and waits until it is gone.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// The next event; nullopt if there is none within `timeout_s`. After GroupEnded: always nullopt.
  std::optional<GroupEvent> next(double timeout_s);

  /// Asks for SIGTERM, and SIGKILL a second later. Events go on until GroupEnded.
  void stop();

  bool ended() const { return ended_; }
  pid_t supervisor_pid() const { return pid_; }

 private:
  void note(const GroupEvent& event);
  void wait_for_supervisor(double timeout_s);
  void replace_lost_supervisor();

  UniqueFd commands_;
  UniqueFd events_;
  pid_t pid_ = -1;
  std::map<int, pid_t> running_;  ///< by rank
  bool ended_ = false;
  const std::string
      mark_;  ///< in the environment of all that descends from the ranks; may be empty
  LineSplitter lines_;
};

}  // namespace planwright::launcher
