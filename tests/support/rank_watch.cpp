#include "tests/support/rank_watch.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "launcher/clock.h"
#include "tests/support/processes.h"

namespace planwright::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kTurn_ms = 8;
constexpr const char* kMark = "PLANWRIGHT_TEST";

/// Empty if the process is gone.
std::string proc_text(pid_t pid, const char* name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // a process that goes meanwhile sets a flag, where an iterator throws
  return text.str();
}

std::set<pid_t> all_pids() {
  std::set<pid_t> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    if (const pid_t pid = std::atoi(entry.path().filename().c_str()); pid > 0) pids.insert(pid);
  }
  return pids;
}

struct Stat {
  char state = 'X';
  pid_t parent = 0, group = 0, session = 0;
  bool runs() const { return state != 'X' && state != 'Z'; }
};

Stat stat_of(pid_t pid) {
  const std::string text = proc_text(pid, "stat");
  Stat stat;
  const std::size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return stat;
  std::istringstream fields(text.substr(bracket + 1));
  fields >> stat.state >> stat.parent >> stat.group >> stat.session;
  return stat;
}

std::vector<std::string> arguments_of(pid_t pid) {
  std::istringstream text(proc_text(pid, "cmdline"));
  std::vector<std::string> arguments;
  for (std::string each; std::getline(text, each, '\0');) arguments.push_back(each);
  return arguments;
}

/// The number of the rank that the process is; a rank leads a session of its own, which tells it
/// from a shell that it has forked.
std::optional<int> rank_of(pid_t pid) {
  const std::vector<std::string> arguments = arguments_of(pid);
  if (arguments.size() < 3 || stat_of(pid).session != pid) return std::nullopt;
  if (!arguments[arguments.size() - 2].ends_with("/request.json")) return std::nullopt;
  return std::atoi(arguments.back().c_str());
}

bool is_supervisor(pid_t pid) {
  const auto arguments = arguments_of(pid);
  return arguments.size() == 1 && arguments[0].ends_with("/planwright-supervisor");
}

std::int64_t peak_memory(pid_t pid) {
  const std::string text = proc_text(pid, "status");
  const std::size_t at = text.find("VmHWM:");
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + 6) * 1024;
}

std::string fresh_mark() {
  static std::atomic<int> count = 0;
  std::string mark = "watched-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".";
  setenv(kMark, mark.c_str(), 1);
  return mark;
}

}  // namespace

RankWatch::RankWatch(std::function<void()> look)
    : mark_(fresh_mark()),
      look_(std::move(look)),
      older_(all_pids()),
      thread_([this] { watch(); }) {}

RankWatch::~RankWatch() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
  for (const pid_t pid : processes_marked(mark_)) kill(pid, SIGKILL);  // a failed test's
  unsetenv(kMark);
}

void RankWatch::watch() {
  while (!done_) {
    turn();
    poll(nullptr, 0, kTurn_ms);
  }
}

void RankWatch::turn() {
  {
    const std::lock_guard lock(mutex_);
    for (const pid_t pid : all_pids()) {
      if (!older_.contains(pid) && pid != getpid()) note_start(pid);
    }
    note_ends();
    if (ranks_.empty()) return;
  }
  look_();
}

/// Asked anew at every turn: a process may not have executed its program yet.
void RankWatch::note_start(pid_t pid) {
  if (!alive_.contains(pid) && proc_text(pid, "environ").find(mark_) == std::string::npos) return;
  alive_.insert(pid);
  const auto known = std::any_of(ranks_.begin(), ranks_.end(),
                                 [&](const auto& each) { return each.second == pid; });
  if (known || pid == supervisor_) return;
  if (const auto rank = rank_of(pid)) ranks_[*rank] = pid;
  // A rank that has yet to execute its program looks like its parent.
  if (is_supervisor(pid) && !alive_.contains(stat_of(pid).parent)) supervisor_ = pid;
}

void RankWatch::note_ends() {
  if (supervisor_ != 0) {
    seen_.supervisor_peak = std::max(seen_.supervisor_peak, peak_memory(supervisor_));
  }
  const double now = launcher::monotonic_s();
  std::erase_if(ranks_, [&](const auto& each) {
    if (stat_of(each.second).runs()) return false;
    if (!seen_.first_end_s) seen_.first_end_s = now;
    seen_.last_end_s = now;
    return true;
  });
  if (std::erase_if(alive_, [](pid_t pid) { return !stat_of(pid).runs(); }) > 0) {
    seen_.all_gone_s = now;
  }
}

std::optional<pid_t> RankWatch::pid_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<pid_t> RankWatch::supervisor() const {
  const std::lock_guard lock(mutex_);
  return alive_.contains(supervisor_) ? std::optional(supervisor_) : std::nullopt;
}

std::set<std::string> RankWatch::listening() const {
  std::map<int, pid_t> ranks;
  {
    const std::lock_guard lock(mutex_);
    ranks = ranks_;
  }
  const std::set<std::string> sockets = listening_sockets();
  std::set<std::string> own;
  for (const auto& [rank, pid] : ranks) {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
      std::error_code closed;
      const std::string target = fs::read_symlink(entry.path(), closed);
      if (target.rfind("socket:[", 0) != 0) continue;
      const std::string inode = target.substr(8, target.size() - 9);
      if (sockets.contains(inode)) own.insert(inode);
    }
  }
  return own;
}

RanksSeen RankWatch::finish(double timeout_s) {
  comes_true(
      [&] {
        const std::lock_guard lock(mutex_);
        return alive_.empty();
      },
      timeout_s);
  done_ = true;
  thread_.join();
  return seen_;
}

std::set<std::string> RankWatch::left() const {
  std::set<std::string> commands;
  for (const pid_t pid : processes_marked(mark_)) {
    std::string line = std::to_string(pid);
    for (const std::string& word : arguments_of(pid)) line += " " + word;
    commands.insert(line);
  }
  return commands;
}

// Columns of /proc/net/tcp: number, addresses, state (0A: listening), queues, timer, retransmits,
// uid, timeout, inode. Source: Linux, Documentation/networking/proc_net_tcp.rst.
std::set<std::string> listening_sockets() {
  std::set<std::string> inodes;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);  // heads
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::vector<std::string> words{std::istream_iterator<std::string>(fields), {}};
      if (words.size() > 9 && words[3] == "0A") inodes.insert(words[9]);
    }
  }
  return inodes;
}

}  // namespace planwright::testing
