#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "estimator/spec/outcome.h"
#include "estimator/spec/target_traits.h"
#include "probes/protocol/probe_report.h"
#include "probes/protocol/probe_request.h"

namespace planwright::launcher {

/// The user asked to stop while ranks ran. Everything that was started has ended.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// A sign of life of one rank, for a terminal's progress line.
struct ProgressEvent {
  int rank = 0;
  std::string text;  ///< as the worker wrote it: "step 2"
  double elapsed_s = 0;
};

struct RunOptions {
  std::string worker;       ///< empty: planwright-worker-<device> beside the running program
  std::string supervisor;   ///< empty: planwright-supervisor beside the running program
  std::string observer;     ///< its folder; empty: observer beside the running program
  std::string temp_root;    ///< empty: $TMPDIR, else /tmp
  std::string log_folder;   ///< where rank-N.log are kept; empty: nowhere
  double deadline_s = 600;  ///< for the whole run, from its start
  double watchdog_s = 60;   ///< without a sign of life of some rank
  double collective_timeout_s = 30;
  std::optional<double> link_bytes_per_s;          ///< of an artificial link between the ranks; see
                                                   ///< ProbeRequest
  std::map<std::string, std::string> environment;  ///< for the ranks, over what the launcher sets
  std::function<bool()> interrupted;               ///< polled at least every 100 ms
  std::function<void(const ProgressEvent&)> progress;
};

/// The training job that measures `candidate` on a target's own runtime. On a CPU its memory
/// budget is the problem's capacity.
probes::TrainJob make_train_job(const Problem& problem, const Candidate& candidate,
                                const ProbeScope& scope, const TargetTraits& traits,
                                std::uint64_t seed);

/// The outcome's environment says under this key what disturbed the measurement, if anything did:
/// "other processes used 37 % of the CPUs".
constexpr const char* kDisturbance = "disturbance";

/// Runs one job in processes of its own, as many as the candidate has ranks, and says how it
/// ended. Never throws for a failing probe, only Interrupted. Nothing of it is left behind:
/// processes, temporary folder, rendezvous.
Outcome run_probe(const probes::TrainJob& job, const RunOptions& options);

/// The same of several jobs of one placement, in as few sets of processes as it takes: one that
/// does not end well takes its processes with it and nothing else, the jobs before it keep what
/// they measured and those after it run in fresh ones. An outcome per job, in order. The deadline
/// holds for each job on average.
std::vector<Outcome> run_probes(const std::vector<probes::TrainJob>& jobs,
                                const RunOptions& options);

/// The same of the first of `jobs` only, at least of one: as far as one set of processes comes.
std::vector<Outcome> run_first_probes(const std::vector<probes::TrainJob>& jobs,
                                      const RunOptions& options);

struct JobsResult {
  /// By rank, of the ranks that left one; it may end before the job that failed.
  std::vector<probes::RankReport> reports;
  std::optional<Outcome> failure;  ///< absent if every rank ended well
  std::optional<double> others;    ///< share of the CPUs that other processes used meanwhile
};

/// Runs several jobs one after another in one set of processes. They share world size, threads and
/// device; a std::logic_error if they do not.
JobsResult run_jobs(const std::vector<probes::TrainJob>& jobs, const RunOptions& options);

/// Runs a request of any kind. Rendezvous, report prefix and time-out are filled in here.
JobsResult run_request(probes::ProbeRequest request, const RunOptions& options);

/// The folder of the running program: where its workers and its supervisor are.
std::string program_folder();

/// The supervisor that `options` names or implies.
std::string supervisor_path(const RunOptions& options);

/// The worker that `options` names or implies for `device`.
std::string worker_path(const RunOptions& options, DeviceKind device);

}  // namespace planwright::launcher
