#include "launcher/probe_runner.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "launcher/classify.h"
#include "launcher/detect/cgroup.h"
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
    spec.ranks.push_back(std::move(command));
  }
  return spec;
}

void read_report(const probes::ProbeRequest& request, RankFate& fate) {
  const std::string path = report_path(request, fate.rank);
  if (!fs::exists(path)) return;
  try {
    fate.report = probes::rank_report_from_json(parse_json(read_file(path), path), path);
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

JobsResult conclude(const probes::ProbeRequest& request, WatchedRun run) {
  JobsResult result;
  for (RankFate& fate : run.end.ranks) {
    read_report(request, fate);
    if (fate.report) add_startup(run.started_s, *fate.report);
    if (fate.report) result.reports.push_back(*fate.report);
  }
  std::sort(result.reports.begin(), result.reports.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  result.failure = failure_of(run.end);
  if (result.failure) result.failure->environment = merge_environment(result.reports);
  return result;
}

JobsResult run_in_folder(probes::ProbeRequest request, const RunOptions& options) {
  const WorkFolder folder(options.temp_root);
  request.rendezvous = folder.path() + "/rendezvous";
  request.report_prefix = folder.path() + "/report";
  request.collective_timeout_s = options.collective_timeout_s;
  const std::string request_path = folder.path() + "/request.json";
  write_file(request_path, probes::to_json(request).dump());

  const std::int64_t oom_kills = oom_kill_count();
  ProcessGroup group(or_default(options.supervisor, "planwright-supervisor"),
                     group_spec(request, request_path, options));
  WatchedRun run = watch(group, options);
  run.end.oom_killed = oom_kill_count() > oom_kills;
  return conclude(request, std::move(run));
}

}  // namespace

std::string program_folder() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) throw WorldError("cannot read /proc/self/exe");
  return fs::path(std::string(path.data(), static_cast<std::size_t>(length))).parent_path();
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
    return {.reports = {}, .failure = Outcome{failure, {}}};
  }
}

JobsResult run_jobs(const std::vector<probes::TrainJob>& jobs, const RunOptions& options) {
  if (jobs.empty()) throw std::logic_error("no job to run");
  const auto placement = [](const probes::TrainJob& job) {
    const ClusterSpec& cluster = job.problem.cluster;
    return std::tuple(job.candidate.world(), cluster.threads_per_rank, cluster.device.kind);
  };
  probes::ProbeRequest request;
  request.kind = probes::JobKind::train;
  request.train = jobs;
  std::tie(request.world, request.threads, request.device) = placement(jobs.front());
  for (const probes::TrainJob& job : jobs) {
    if (placement(job) != placement(jobs.front())) {
      throw std::logic_error("jobs of one run differ in world size, threads or device");
    }
  }
  return run_request(std::move(request), options);
}

Outcome run_probe(const probes::TrainJob& job, const RunOptions& options) {
  const JobsResult result = run_jobs({job}, options);
  if (result.failure) return *result.failure;
  const Workload& work = job.problem.workload;
  Outcome outcome;
  outcome.environment = merge_environment(result.reports);
  try {
    outcome.value = probes::summarize(result.reports, 0, work.global_batch * work.seq);
  } catch (const WorldError& error) {  // reports that contradict one another
    outcome.value = Failure{OutcomeKind::crashed, error.what(), "", {}};
  }
  return outcome;
}

}  // namespace planwright::launcher
