#include "launcher/supervisor/descendants.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "launcher/clock.h"

namespace planwright::supervisor {
namespace {

struct ProcessEntry {
  pid_t parent = 0;
  char state = 'Z';
};

/// Fields 3 and 4 of /proc/PID/stat stand behind the command, which may hold blanks and brackets.
bool read_entry(const char* pid, ProcessEntry& entry) {
  const std::string path = std::string("/proc/") + pid + "/stat";
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), fclose);
  char text[512] = {};
  if (!file || fread(text, 1, sizeof text - 1, file.get()) == 0) return false;
  const std::string line = text;
  const std::size_t bracket = line.rfind(')');
  return bracket != std::string::npos &&
         sscanf(line.c_str() + bracket + 1, " %c %d", &entry.state, &entry.parent) == 2;
}

std::map<pid_t, ProcessEntry> all_processes() {
  std::map<pid_t, ProcessEntry> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (!folder) return processes;
  while (const dirent* each = readdir(folder.get())) {
    ProcessEntry entry;
    const pid_t pid = atoi(each->d_name);
    if (pid > 0 && read_entry(each->d_name, entry)) processes[pid] = entry;
  }
  return processes;
}

bool is_below(pid_t pid, pid_t ancestor, const std::map<pid_t, ProcessEntry>& processes) {
  // The snapshot is not atomic, so parents might form a ring; the number of steps is bounded.
  for (std::size_t step = 0; step <= processes.size(); ++step) {
    const auto entry = processes.find(pid);
    if (entry == processes.end()) return false;
    pid = entry->second.parent;
    if (pid == ancestor) return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> descendants(pid_t ancestor) {
  const auto processes = all_processes();
  std::vector<pid_t> below;
  for (const auto& [pid, entry] : processes) {
    if (entry.state != 'Z' && is_below(pid, ancestor, processes)) below.push_back(pid);
  }
  return below;
}

int kill_descendants(double timeout_s) {
  const double until = launcher::monotonic_s() + timeout_s;
  while (true) {
    const auto below = descendants(getpid());
    for (const pid_t pid : below) kill(pid, SIGKILL);
    pid_t reaped = 0;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0) return 0;  // no child, hence no descendant
    if (launcher::monotonic_s() > until) return static_cast<int>(below.size());
    poll(nullptr, 0, 2);
  }
}

}  // namespace planwright::supervisor
