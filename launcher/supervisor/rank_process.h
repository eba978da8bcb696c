#pragma once

#include <sys/types.h>

#include <string>

#include "launcher/group_protocol.h"
#include "launcher/line_splitter.h"
#include "launcher/supervisor/log_sink.h"
#include "launcher/unique_fd.h"

namespace planwright::supervisor {

/// One rank: a session of its own, stdin /dev/null, stdout and stderr a pipe to here, descriptor 3
/// the progress pipe. Dies with the supervisor.
class RankProcess {
 public:
  /// Forks and executes. `failure()` says why if the program could not be executed.
  RankProcess(int rank, const launcher::RankCommand& command);

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  double started_s() const { return started_s_; }
  const std::string& failure() const { return failure_; }
  bool running() const { return running_; }
  bool ordered() const { return ordered_; }
  int log_fd() const { return log_pipe_.get(); }
  int progress_fd() const { return progress_pipe_.get(); }

  /// Takes what the pipes hold now. A flood is left for the next call.
  void read_output();
  std::optional<std::string> next_progress() { return progress_.next(); }
  LogSink& log() { return log_; }

  /// Signals the rank's whole process group; from now on its end is by order.
  void end_with(int signal);
  void mark_exited() { running_ = false; }

 private:
  int rank_;
  pid_t pid_ = -1;
  double started_s_ = 0;
  bool running_ = false;
  bool ordered_ = false;
  std::string failure_;
  launcher::UniqueFd log_pipe_, progress_pipe_;
  launcher::LineSplitter progress_;
  LogSink log_;
};

}  // namespace planwright::supervisor
