#include "launcher/process_group.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "estimator/spec/error.h"
#include "launcher/clock.h"

extern char** environ;

namespace planwright::launcher {
namespace {

/// An event is at most a log tail, escaped: six characters a byte at worst.
constexpr std::size_t kEventLimit = 8 * kLogTail;

/// From the closing of its stdin to the end of the supervisor; what it needs at most by its own
/// deadlines (supervisor.cpp), and one second of scheduling.
constexpr double kSupervisorEnds_s = 5;
/// A process that SIGKILL has not ended by then sits in a system call of a broken device.
constexpr double kKillTakes_s = 2;

struct Pipe {
  UniqueFd read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw WorldError(std::string("cannot make a pipe: ") + strerror(errno));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// A socket and not a pipe, so that writing to a dead supervisor raises no SIGPIPE in the tuner.
Pipe make_command_channel() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw WorldError(std::string("cannot make a socket: ") + strerror(errno));
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// The supervisor gets a session of its own: neither a terminal's Ctrl-C nor a signal to the
/// tuner's process group may end it before it has ended the ranks.
pid_t spawn(const std::string& program, int stdin_fd, int stdout_fd) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, stdin_fd, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, stdout_fd, STDOUT_FILENO);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::string name = program;
  std::array<char*, 2> argv{name.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw WorldError("cannot start " + program + ": " + strerror(error));
  return pid;
}

std::string run_mark(const GroupSpec& spec) {
  return spec.work_folder.empty() ? "" : std::string(kRunVariable) + "=" + spec.work_folder;
}

std::string spec_line(GroupSpec spec) {
  if (!spec.work_folder.empty()) {
    for (RankCommand& rank : spec.ranks) rank.environment[kRunVariable] = spec.work_folder;
  }
  try {
    return to_json(spec).dump() + "\n";
  } catch (const Json::exception&) {
    throw WorldError("a path or environment variable for the ranks is not UTF-8");
  }
}

GroupEvent parse_event(const std::string& line) {
  try {
    return group_event_from_json(Json::parse(line));
  } catch (const Json::exception&) {
    throw WorldError("the supervisor said something that is no event: " + line.substr(0, 200));
  }
}

/// Pids of the processes with `mark` in their environment. That of a zombie is empty.
std::vector<pid_t> processes_with(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", unreadable)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    for (std::string each; std::getline(file, each, '\0');) {
      if (each == mark) found.push_back(pid);
    }
  }
  return found;
}

void kill_all_with(const std::string& mark, double timeout_s) {
  const double until = monotonic_s() + timeout_s;
  while (monotonic_s() < until) {
    const std::vector<pid_t> left = processes_with(mark);
    if (left.empty()) return;
    for (const pid_t pid : left) kill(pid, SIGKILL);
    poll(nullptr, 0, 2);
  }
}

void send_all(int fd, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // it has ended; its events say so
    sent += static_cast<std::size_t>(n);
  }
}

}  // namespace

ProcessGroup::ProcessGroup(const std::string& supervisor, const GroupSpec& spec)
    : mark_(run_mark(spec)), lines_(kEventLimit) {
  const std::string line = spec_line(spec);
  Pipe commands = make_command_channel();
  Pipe events = make_pipe();
  pid_ = spawn(supervisor, commands.read.get(), events.write.get());
  // As long as this process holds them, it does not learn that the supervisor has ended.
  commands.read.reset();
  events.write.reset();
  commands_ = std::move(commands.write);
  events_ = std::move(events.read);
  send_all(commands_.get(), line);
}

ProcessGroup::~ProcessGroup() {
  commands_.reset();
  events_.reset();
  wait_for_supervisor(kSupervisorEnds_s);
}

void ProcessGroup::wait_for_supervisor(double timeout_s) {
  kill(pid_, SIGCONT);
  const double until = monotonic_s() + timeout_s;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (monotonic_s() > until) kill(pid_, SIGKILL);
    poll(nullptr, 0, 5);
  }
  if (WIFSIGNALED(status)) replace_lost_supervisor();
}

/// The ranks die with their supervisor (PR_SET_PDEATHSIG), but what they started does not, and it
/// may be in sessions of its own.
void ProcessGroup::replace_lost_supervisor() {
  for (const auto& [rank, pid] : running_) kill(-pid, SIGKILL);
  running_.clear();
  if (!mark_.empty()) kill_all_with(mark_, kKillTakes_s);
}

void ProcessGroup::note(const GroupEvent& event) {
  const auto* const started = std::get_if<RankStarted>(&event);
  if (started != nullptr) running_[started->rank] = started->pid;
  const auto* const exited = std::get_if<RankExited>(&event);
  if (exited != nullptr) running_.erase(exited->rank);
  ended_ = std::holds_alternative<GroupEnded>(event);
}

std::optional<GroupEvent> ProcessGroup::next(double timeout_s) {
  const double until = monotonic_s() + timeout_s;
  while (!ended_) {
    if (const auto line = lines_.next()) {
      GroupEvent event = parse_event(*line);
      note(event);
      return event;
    }
    const double left_ms = std::max(0.0, std::ceil(1e3 * (until - monotonic_s())));
    pollfd ready{events_.get(), POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(left_ms)) <= 0) {
      if (monotonic_s() >= until) return std::nullopt;
      continue;
    }
    std::array<char, 65536> bytes;
    const ssize_t n = read(events_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      ended_ = true;
      replace_lost_supervisor();
      return GroupEnded{.left = 0, .lost = true};
    }
    lines_.append({bytes.data(), static_cast<std::size_t>(n)});
  }
  return std::nullopt;
}

void ProcessGroup::stop() {
  send_all(commands_.get(), kStopCommand);
  if (!ended_) kill(pid_, SIGCONT);  // it obeys nothing while it is stopped
}

}  // namespace planwright::launcher
