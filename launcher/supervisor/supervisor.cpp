#include "launcher/supervisor/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/clock.h"
#include "launcher/group_protocol.h"
#include "launcher/line_splitter.h"
#include "launcher/supervisor/descendants.h"
#include "launcher/supervisor/event_writer.h"
#include "launcher/supervisor/rank_process.h"

namespace planwright::supervisor {
namespace {

using namespace launcher;

constexpr std::size_t kCommandLine = 16 * 1024 * 1024;
/// A process that SIGKILL has not ended by then sits in a system call of a broken device.
constexpr double kKillTakes_s = 2;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// How far the end of the group has come. It only ever moves down this list.
enum class Ending { none, peers_may_report, told_to_end, killed };

class Supervisor {
 public:
  Supervisor(int in, int out, int signals)
      : in_(in), out_(out), signals_(signals), commands_(kCommandLine), events_(out) {}

  int run() {
    if (!read_spec()) return 2;
    start_ranks();
    obey_commands();  // one may have come with the specification
    while (any_running() && !orphaned_ && monotonic_s() < give_up_at_) {
      wait_and_read();
      reap();
      advance_ending();
    }
    for (auto& rank : ranks_) rank->end_with(SIGKILL);
    const int left = kill_descendants(kKillTakes_s);
    for (auto& rank : ranks_) {
      if (rank->running()) report_exit(*rank, 0, SIGKILL);
      rank->log().finish();
    }
    events_.send(GroupEnded{.left = left});
    if (!orphaned_) events_.drain(kKillTakes_s);
    if (orphaned_ || events_.reader_gone()) remove_work_folder();
    return 0;
  }

 private:
  /// The tuner does this itself as long as it lives.
  void remove_work_folder() const {
    std::error_code ignored;
    if (!spec_.work_folder.empty()) std::filesystem::remove_all(spec_.work_folder, ignored);
  }

  bool read_spec() {
    while (!orphaned_) {
      if (const auto line = commands_.next()) {
        spec_ = group_spec_from_json(Json::parse(*line));
        return true;
      }
      pollfd ready[] = {{in_, POLLIN, 0}, {signals_, POLLIN, 0}};
      poll(ready, 2, -1);
      if (ready[1].revents != 0) return false;
      read_commands();
    }
    return false;
  }

  void start_ranks() {
    for (std::size_t i = 0; i < spec_.ranks.size(); ++i) {
      const int rank = static_cast<int>(i);
      ranks_.push_back(std::make_unique<RankProcess>(rank, spec_.ranks[i]));
      const RankProcess& process = *ranks_.back();
      if (process.running()) {
        events_.send(RankStarted{rank, process.pid(), process.started_s()});
      } else {
        events_.send(RankNotStarted{rank, process.failure()});
        begin(Ending::killed);
        return;
      }
    }
  }

  void wait_and_read() {
    std::vector<pollfd> ready{{in_, POLLIN, 0}, {signals_, POLLIN, 0}};
    // Without POLLOUT the output is still asked for errors: its reader's end.
    ready.push_back({out_, static_cast<short>(events_.pending() ? POLLOUT : 0), 0});
    for (const auto& rank : ranks_) {
      if (rank->log_fd() >= 0) ready.push_back({rank->log_fd(), POLLIN, 0});
      if (rank->progress_fd() >= 0) ready.push_back({rank->progress_fd(), POLLIN, 0});
    }
    poll(ready.data(), ready.size(), timeout_ms());
    if (ready[0].revents != 0) read_commands();
    if (ready[1].revents != 0) read_signals();
    obey_commands();
    if ((ready[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) orphaned_ = true;
    events_.flush();
    for (auto& rank : ranks_) read_rank(*rank);
    orphaned_ = orphaned_ || events_.reader_gone();
  }

  int timeout_ms() const {
    const double at = std::min(next_step_at_, give_up_at_);
    if (at == kNever) return -1;
    return static_cast<int>(std::clamp((at - monotonic_s()) * 1e3 + 1, 0.0, 60e3));
  }

  void read_rank(RankProcess& rank) {
    rank.read_output();
    while (const auto line = rank.next_progress()) {
      events_.send(RankProgress{rank.rank(), *line});
    }
  }

  void read_commands() {
    std::array<char, 65536> bytes;
    const ssize_t n = read(in_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      orphaned_ = true;
      return;
    }
    commands_.append({bytes.data(), static_cast<std::size_t>(n)});
  }

  void obey_commands() {
    while (const auto line = commands_.next()) {
      if (*line + "\n" == kStopCommand) begin(Ending::told_to_end);
    }
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGCHLD) begin(Ending::told_to_end);
    }
  }

  void reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      for (auto& rank : ranks_) {
        if (rank->pid() != pid || !rank->running()) continue;
        read_rank(*rank);
        report_exit(*rank, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                    WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        if (status != 0 || lacks_report(rank->rank())) begin(Ending::peers_may_report);
      }
    }
  }

  bool lacks_report(int rank) const {
    const std::string& path = spec_.ranks[static_cast<std::size_t>(rank)].must_leave;
    return !path.empty() && access(path.c_str(), F_OK) != 0;
  }

  void report_exit(RankProcess& rank, int code, int signal) {
    rank.mark_exited();
    events_.send(
        RankExited{rank.rank(), code, signal, rank.ordered(), std::string(rank.log().tail())});
  }

  /// Begins a step of the ending unless it, or a later one, has begun.
  void begin(Ending step) {
    if (step <= ending_) return;
    ending_ = step;
    const double now = monotonic_s();
    if (step == Ending::peers_may_report) next_step_at_ = now + spec_.peer_grace_s;
    if (step == Ending::told_to_end) {
      for (auto& rank : ranks_) rank->end_with(SIGTERM);
      next_step_at_ = now + spec_.term_grace_s;
    }
    if (step == Ending::killed) {
      for (auto& rank : ranks_) rank->end_with(SIGKILL);
      for (const pid_t pid : descendants(getpid())) kill(pid, SIGKILL);
      next_step_at_ = kNever;
      give_up_at_ = now + kKillTakes_s;
    }
  }

  void advance_ending() {
    if (monotonic_s() < next_step_at_) return;
    begin(static_cast<Ending>(static_cast<int>(ending_) + 1));
  }

  bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r->running(); });
  }

  int in_;
  int out_;
  int signals_;
  LineSplitter commands_;
  EventWriter events_;
  GroupSpec spec_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  Ending ending_ = Ending::none;
  double next_step_at_ = kNever;
  double give_up_at_ = kNever;
  bool orphaned_ = false;
};

/// The signals that end a program politely, and SIGCHLD, as a readable descriptor.
UniqueFd watch_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int each : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, each);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return UniqueFd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

int supervise(int in, int out) {
  // What the tuner left open by mistake must not outlive it in a rank.
  close_range(STDERR_FILENO + 1, ~0U, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const UniqueFd signals = watch_signals();
  return Supervisor(in, out, signals.get()).run();
}

}  // namespace planwright::supervisor
