#include "launcher/probe_runner.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "launcher/classify.h"
#include "launcher/detect/cgroup.h"
#include "launcher/disturbance.h"
#include "launcher/files.h"
#include "launcher/process_group.h"
#include "launcher/run_watch.h"

namespace planwright::launcher {
namespace {

namespace fs = std::filesystem;

std::string or_default(const std::string& path, const std::string& name) {
  return path.empty() ? program_folder() + "/" + name : path;
}

std::string report_path(const probes::ProbeRequest& request, int rank) {
  return request.report_prefix + "." + std::to_string(rank) + ".json";
}

/// One rank must not take the cores of the others: OpenMP would start a thread per core.
std::map<std::string, std::string> rank_environment(const probes::ProbeRequest& request,
                                                    const RunOptions& options) {
  std::map<std::string, std::string> environment = options.environment;
  environment.insert({"OMP_NUM_THREADS", std::to_string(request.threads)});
  environment.insert({"MKL_NUM_THREADS", std::to_string(request.threads)});
  return environment;
}

GroupSpec group_spec(const probes::ProbeRequest& request, const std::string& request_path,
                     const RunOptions& options) {
  GroupSpec spec;
  spec.work_folder = fs::path(request_path).parent_path();
  for (int rank = 0; rank < request.world; ++rank) {
    RankCommand command;
    command.argv = {worker_path(options, request.device), request_path, std::to_string(rank)};
    command.environment = rank_environment(request, options);
    if (!options.log_folder.empty()) {
      command.log_path = options.log_folder + "/rank-" + std::to_string(rank) + ".log";
    }
    command.must_leave = report_path(request, rank);
    spec.ranks.push_back(std::move(command));
  }
  return spec;
}

void read_report(const probes::ProbeRequest& request, RankFate& fate) {
  const std::string path = report_path(request, fate.rank);
  if (!fs::exists(path)) return;
  try {
    probes::RankReport report =
        probes::rank_report_from_json(parse_json(read_file(path), path), path);
    if (report.rank != fate.rank) {
      throw WorldError(path + ": is the report of rank " + std::to_string(report.rank));
    }
    fate.report = std::move(report);
  } catch (const std::runtime_error& error) {
    fate.report_problem = error.what();
  }
}

void add_startup(const std::map<int, double>& started_s, probes::RankReport& report) {
  const auto started = started_s.find(report.rank);
  if (started == started_s.end() || report.jobs.empty() || report.first_step_monotonic_s == 0) {
    return;
  }
  report.jobs.front().measurement.startup_s = report.first_step_monotonic_s - started->second;
}

/// Jobs from the first on that went well.
std::size_t good_jobs(const probes::RankReport& report) {
  const auto bad = std::find_if(report.jobs.begin(), report.jobs.end(),
                                [](const auto& job) { return job.end != probes::RankEnd::ok; });
  return static_cast<std::size_t>(bad - report.jobs.begin());
}

/// Whether the rank had come to its end when it wrote this, and not only to that of a job.
bool is_last(const probes::RankReport& report, const probes::ProbeRequest& request) {
  return good_jobs(report) < report.jobs.size() || report.jobs.size() >= request.train.size();
}

JobsResult conclude(const probes::ProbeRequest& request, WatchedRun run) {
  JobsResult result;
  for (RankFate& fate : run.end.ranks) {
    read_report(request, fate);
    if (!fate.report) continue;
    add_startup(run.started_s, *fate.report);
    result.reports.push_back(*fate.report);
    if (!is_last(*fate.report, request)) fate.report.reset();
  }
  std::sort(result.reports.begin(), result.reports.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  result.failure = failure_of(run.end);
  if (result.failure) result.failure->environment = merge_environment(result.reports);
  return result;
}

WatchedRun run_ranks(const probes::ProbeRequest& request, const std::string& request_path,
                     const RunOptions& options) {
  const std::int64_t oom_kills = oom_kill_count();
  ProcessGroup group(supervisor_path(options), group_spec(request, request_path, options));
  WatchedRun run = watch(group, options);
  run.end.oom_killed = oom_kill_count() > oom_kills;
  return run;
}

JobsResult run_in_folder(probes::ProbeRequest request, const RunOptions& options) {
  const WorkFolder folder(options.temp_root);
  request.rendezvous = folder.path() + "/rendezvous";
  request.report_prefix = folder.path() + "/report";
  request.collective_timeout_s = options.collective_timeout_s;
  const std::string request_path = folder.path() + "/request.json";
  write_file(request_path, probes::to_json(request).dump());

  const CpuUse begin = cpu_use();
  WatchedRun run = run_ranks(request, request_path, options);
  // Every process of the run has been waited for, so that its time counts as our own.
  const std::optional<double> others = share_of_others(begin, cpu_use());
  JobsResult result = conclude(request, std::move(run));
  result.others = others;
  return result;
}

/// What the ranks' fingerprint does not know of the job.
void describe_job(const probes::TrainJob& job, std::map<std::string, std::string>& environment) {
  environment["target"] = job.problem.target;
  environment["target_version"] = job.problem.target_version;
  environment["kernels"] = word(job.kernels);
}

/// A plan under which the loss leaves the numbers does not train; how fast it does not is nobody's
/// figure.
void require_finite(const std::vector<double>& losses) {
  const auto lost =
      std::find_if(losses.begin(), losses.end(), [](double loss) { return !std::isfinite(loss); });
  if (lost == losses.end()) return;
  throw WorldError("the plan does not train: the loss of step " +
                   std::to_string(lost - losses.begin() + 1) + " is not a finite number");
}

/// The outcome of a job that every rank finished.
Outcome finished_outcome(const probes::TrainJob& job, std::size_t index, const JobsResult& ran) {
  const Workload& work = job.problem.workload;
  Outcome outcome;
  outcome.environment = merge_environment(ran.reports);
  describe_job(job, outcome.environment);
  try {
    Measurement measured = probes::summarize(ran.reports, index, work.global_batch * work.seq);
    require_finite(measured.losses);
    if (const auto text = disturbance_text(ran.others, measured.steps_s)) {
      outcome.environment[kDisturbance] = *text;
    }
    outcome.value = std::move(measured);
  } catch (const WorldError& error) {  // or reports that contradict one another
    outcome.value = Failure{OutcomeKind::crashed, error.what(), "", {}};
  }
  return outcome;
}

/// One plays a rank of a shadow probe; otherwise each rank has its own.
int processes(const probes::TrainJob& job) {
  if (job.scope.kind == ScopeKind::shadow) return 1;
  return static_cast<int>(job.candidate.world());
}

/// Of a shadow probe, in which rank 0 of its own world plays another. What only the whole job could
/// show is not known.
void name_played_rank(const ProbeScope& scope, Outcome& outcome) {
  if (scope.kind != ScopeKind::shadow) return;
  if (auto* measured = std::get_if<Measurement>(&outcome.value)) {
    for (RankMeasurement& rank : measured->ranks) rank.rank = scope.rank;
    measured->tokens_per_second_per_device = 0;
  } else if (auto* full = std::get_if<OutOfMemory>(&outcome.value)) {
    full->rank = scope.rank;
  }
}

/// Jobs that every rank finished, from the first on.
std::size_t finished_jobs(const JobsResult& ran, const probes::TrainJob& job) {
  if (ran.reports.size() != static_cast<std::size_t>(processes(job))) return 0;
  std::size_t finished = good_jobs(ran.reports.front());
  for (const probes::RankReport& report : ran.reports) {
    finished = std::min(finished, good_jobs(report));
  }
  return finished;
}

}  // namespace

std::string program_folder() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) throw WorldError("cannot read /proc/self/exe");
  return fs::path(std::string(path.data(), static_cast<std::size_t>(length))).parent_path();
}

std::string supervisor_path(const RunOptions& options) {
  return or_default(options.supervisor, "planwright-supervisor");
}

std::string worker_path(const RunOptions& options, DeviceKind device) {
  return or_default(options.worker, "planwright-worker-" + std::string(word(device)));
}

probes::TrainJob make_train_job(const Problem& problem, const Candidate& candidate,
                                const ProbeScope& scope, const TargetTraits& traits,
                                std::uint64_t seed) {
  const DeviceKind device = problem.cluster.device.kind;
  probes::TrainJob job;
  job.problem = problem;
  job.candidate = candidate;
  job.scope = scope;
  job.bucket_elements = traits.bucket_elements(candidate);
  job.overlap = traits.overlaps(candidate);
  job.kernels = traits.kernels(device);
  if (device == DeviceKind::cpu) job.memory_budget = capacity(problem);
  job.seed = seed;
  return job;
}

JobsResult run_request(probes::ProbeRequest request, const RunOptions& options) {
  try {
    return run_in_folder(std::move(request), options);
  } catch (const WorldError& error) {
    const Failure failure{OutcomeKind::environment, error.what(), "", {}};
    return {.reports = {}, .failure = Outcome{failure, {}}, .others = {}};
  }
}

JobsResult run_jobs(const std::vector<probes::TrainJob>& jobs, const RunOptions& options) {
  if (jobs.empty()) throw std::logic_error("no job to run");
  const auto placement = [](const probes::TrainJob& job) {
    const ClusterSpec& cluster = job.problem.cluster;
    return std::tuple(processes(job), cluster.threads_per_rank, cluster.device.kind);
  };
  probes::ProbeRequest request;
  request.kind = probes::JobKind::train;
  request.train = jobs;
  request.link_bytes_per_s = options.link_bytes_per_s;
  std::tie(request.world, request.threads, request.device) = placement(jobs.front());
  for (const probes::TrainJob& job : jobs) {
    if (placement(job) != placement(jobs.front())) {
      throw std::logic_error("jobs of one run differ in world size, threads or device");
    }
  }
  return run_request(std::move(request), options);
}

std::vector<Outcome> run_first_probes(const std::vector<probes::TrainJob>& jobs,
                                      const RunOptions& options) {
  RunOptions for_all = options;
  for_all.deadline_s *= static_cast<double>(jobs.size());
  const JobsResult ran = run_jobs(jobs, for_all);
  const std::size_t most = ran.failure ? jobs.size() - 1 : jobs.size();
  const std::size_t finished = std::min(finished_jobs(ran, jobs.front()), most);
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < finished; ++i) {
    outcomes.push_back(finished_outcome(jobs[i], i, ran));
    name_played_rank(jobs[i].scope, outcomes.back());
  }
  if (!ran.failure) return outcomes;
  outcomes.push_back(*ran.failure);
  describe_job(jobs[finished], outcomes.back().environment);
  name_played_rank(jobs[finished].scope, outcomes.back());
  return outcomes;
}

std::vector<Outcome> run_probes(const std::vector<probes::TrainJob>& jobs,
                                const RunOptions& options) {
  std::vector<Outcome> outcomes;
  for (auto next = jobs.begin(); next != jobs.end();) {
    std::vector<Outcome> some = run_first_probes({next, jobs.end()}, options);
    next += static_cast<std::ptrdiff_t>(some.size());
    std::move(some.begin(), some.end(), std::back_inserter(outcomes));
  }
  return outcomes;
}

Outcome run_probe(const probes::TrainJob& job, const RunOptions& options) {
  return run_probes({job}, options).front();
}

}  // namespace planwright::launcher
