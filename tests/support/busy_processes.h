#pragma once

#include <sys/types.h>

#include <vector>

namespace planwright::testing {

/// A process for each CPU that does nothing but use it, from a session of its own, until this
/// object goes.
class BusyProcesses {
 public:
  BusyProcesses();
  ~BusyProcesses();
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> pids_;
};

}  // namespace planwright::testing
