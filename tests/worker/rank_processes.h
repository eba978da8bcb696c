#pragma once

#include <string>
#include <vector>

#include "probes/protocol/probe_report.h"
#include "probes/protocol/probe_request.h"

namespace planwright::worker::testing {

/// The ranks of a request as processes of the built CPU worker. Those that are still there when
/// it goes are killed.
class RankProcesses {
 public:
  /// Sets the request's paths, in a folder of its own, and starts all ranks.
  explicit RankProcesses(probes::ProbeRequest request);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Exit codes by rank; minus the signal's number for one that was ended by a signal.
  std::vector<int> wait();
  void kill(int rank);
  /// The next progress line of a rank that is not `alive`; empty when it has ended.
  std::string next_step(int rank);
  probes::RankReport report(int rank) const;
  bool has_report(int rank) const;
  const std::string& folder() const { return folder_; }

 private:
  struct Process {
    int pid = -1;
    int progress = -1;
  };
  Process start(int rank) const;

  probes::ProbeRequest request_;
  std::string folder_;
  std::vector<Process> processes_;
};

/// A folder of this test, empty.
std::string fresh_folder();

}  // namespace planwright::worker::testing
