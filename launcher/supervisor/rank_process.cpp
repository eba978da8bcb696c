#include "launcher/supervisor/rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "estimator/spec/error.h"
#include "launcher/clock.h"
#include "probes/protocol/probe_report.h"

namespace planwright::supervisor {
namespace {

using launcher::RankCommand;
using launcher::UniqueFd;

constexpr std::size_t kProgressLine = 1024;
/// Of one pipe in one turn, so that a rank that floods its output does not starve the others.
constexpr std::size_t kTurn = 1024 * 1024;

struct Pipe {
  UniqueFd read, write;
};

/// The write end is moved above the descriptors that the child sets up, so that dup2 in the child
/// never meets its own source.
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw WorldError(strerror(errno));
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  pipe.write = UniqueFd(fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

void write_text(const char* path, const char* text) {
  const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  if (file && write(file.get(), text, strlen(text)) < 0) return;  // a wish, not a need
}

/// No core dumps: that of a large rank takes longer to write than its peers may wait. First choice
/// of the kernel's out-of-memory killer: better a rank than the tuner.
void make_expendable() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  write_text("/proc/self/oom_score_adj", "1000");
}

void pin(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void restore_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
}

/// In the child, until exec. Reports errno through `trouble`, which exec closes.
[[noreturn]] void become(const RankCommand& command, pid_t supervisor, int log, int progress,
                         int trouble) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(127);  // it died before the line above took effect
  restore_signals();
  make_expendable();
  pin(command.cpus);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  dup2(progress, probes::kProgressDescriptor);
  if (null > probes::kProgressDescriptor) close(null);
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);

  std::vector<char*> argv;
  for (const std::string& each : command.argv) argv.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  const int error = errno;
  if (write(trouble, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

/// What `fd` holds now, at most kTurn; closes it at its end.
template <class Take>
void read_available(UniqueFd& fd, Take take) {
  std::array<char, 65536> bytes;
  std::size_t taken = 0;
  while (fd && taken < kTurn) {
    const ssize_t n = read(fd.get(), bytes.data(), bytes.size());
    if (n > 0) {
      take(std::string_view(bytes.data(), static_cast<std::size_t>(n)));
      taken += static_cast<std::size_t>(n);
    } else if (n == 0) {
      fd.reset();
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

RankProcess::RankProcess(int rank, const RankCommand& command)
    : rank_(rank), progress_(kProgressLine), log_(command.log_path) {
  Pipe log = make_pipe();
  Pipe progress = make_pipe();
  Pipe trouble = make_pipe();
  const pid_t supervisor = getpid();
  started_s_ = launcher::monotonic_s();
  pid_ = fork();
  if (pid_ == 0) {
    become(command, supervisor, log.write.get(), progress.write.get(), trouble.write.get());
  }
  trouble.write.reset();
  int error = pid_ < 0 ? errno : 0;
  if (pid_ > 0) {
    fcntl(trouble.read.get(), F_SETFL, 0);
    const bool failed = read(trouble.read.get(), &error, sizeof error) == sizeof error;
    if (failed) waitpid(pid_, nullptr, 0);
    running_ = !failed;
  }
  if (!running_) failure_ = "cannot execute " + command.argv[0] + ": " + strerror(error);
  log_pipe_ = std::move(log.read);
  progress_pipe_ = std::move(progress.read);
}

void RankProcess::read_output() {
  read_available(log_pipe_, [&](std::string_view bytes) { log_.append(bytes); });
  read_available(progress_pipe_, [&](std::string_view bytes) { progress_.append(bytes); });
}

void RankProcess::end_with(int signal) {
  if (!running_) return;
  ordered_ = true;
  kill(-pid_, signal);
  kill(-pid_, SIGCONT);  // a stopped process acts on nothing but SIGKILL
}

}  // namespace planwright::supervisor
