#include "tests/support/busy_processes.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

namespace planwright::testing {
namespace {

int allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace

BusyProcesses::BusyProcesses() {
  for (int i = 0; i < allowed_cpus(); ++i) {
    const pid_t pid = fork();
    if (pid > 0) pids_.push_back(pid);
    if (pid != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    for (std::atomic<unsigned> turn = 0;; ++turn) {
    }
  }
}

BusyProcesses::~BusyProcesses() {
  for (const pid_t pid : pids_) kill(pid, SIGKILL);
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

}  // namespace planwright::testing
