#include <ATen/Parallel.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "estimator/spec/text_file.h"
#include "probes/protocol/probe_report.h"
#include "probes/protocol/probe_request.h"
#include "probes/worker/benchmark_job.h"
#include "probes/worker/collectives.h"
#include "probes/worker/device.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/environment.h"
#include "probes/worker/error_text.h"
#include "probes/worker/progress.h"
#include "probes/worker/report_file.h"
#include "probes/worker/train_job.h"

namespace planwright::worker {
namespace {

using probes::RankEnd;

/// What ended the job that was under way, in the report's words.
void note_end(const std::exception& error, int rank, probes::RankReport& report) {
  if (report.jobs.empty()) report.jobs.emplace_back();
  probes::RankJobReport& job = report.jobs.back();
  job.message = error_text(error);
  job.end = RankEnd::failed;
  if (dynamic_cast<const PeerFailed*>(&error)) job.end = RankEnd::peer_failed;
  if (auto facts = out_of_memory(error)) {
    facts->rank = rank;
    job.out_of_memory = facts;
    job.end = RankEnd::out_of_memory;
  }
}

int exit_code(const probes::RankReport& report) {
  switch (report.jobs.empty() ? RankEnd::ok : report.jobs.back().end) {
    case RankEnd::ok:
      return probes::kExitOk;
    case RankEnd::out_of_memory:
      return probes::kExitDeviceOutOfMemory;
    case RankEnd::peer_failed:
      return probes::kExitPeerFailed;
    case RankEnd::failed:
      break;
  }
  return probes::kExitFailed;
}

/// The host's fault and not the job's: a full disk, say.
class NoReport : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void write_report(const probes::ProbeRequest& request, const probes::RankReport& report) {
  try {
    write_whole(request.report_prefix + "." + std::to_string(report.rank) + ".json",
                to_json(report).dump(2));
  } catch (const std::runtime_error& error) {
    throw NoReport(error.what());
  }
}

void run_jobs(const probes::ProbeRequest& request, const Progress& progress, at::Device device,
              probes::RankReport& report) {
  Collectives collectives(request, report.rank);
  const Rank rank{device, collectives, progress};
  if (request.kind == probes::JobKind::benchmark) {
    report.rates = run_benchmark_job(request, rank);
    write_report(request, report);
    return;
  }
  for (const probes::TrainJob& job : request.train) {
    probes::RankJobReport& job_report = report.jobs.emplace_back();
    run_train_job(job, rank, report, job_report);
    write_report(request, report);
  }
}

int run_rank(const std::string& request_path, int rank, const Progress& progress) {
  const probes::ProbeRequest request = probes::probe_request_from_json(
      parse_json(read_file(request_path), request_path), request_path);
  if (rank < 0 || rank >= request.world) {
    throw std::invalid_argument("there is no rank " + std::to_string(rank) + " among " +
                                std::to_string(request.world));
  }
  at::set_num_threads(request.threads);
  at::set_num_interop_threads(1);
  install_device_memory();
  const at::Device device = open_device(rank);

  probes::RankReport report;
  report.rank = rank;
  report.environment = environment(request, device);
  try {
    run_jobs(request, progress, device, report);
  } catch (const NoReport&) {
    throw;
  } catch (const std::exception& error) {
    note_end(error, rank, report);
    std::fprintf(stderr, "rank %d: %s\n", rank, error_text(error).c_str());
    write_report(request, report);
  }
  return exit_code(report);
}

}  // namespace
}  // namespace planwright::worker

int main(int argc, char** argv) {
  using namespace planwright;
  const worker::Progress progress;
  std::signal(SIGPIPE, SIG_IGN);  // a peer that is gone is an exception, not a signal
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a file that may not grow
  int code = probes::kExitFailed;
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s REQUEST.json RANK\n", argv[0]);
  } else {
    try {
      code = worker::run_rank(argv[1], std::stoi(argv[2]), progress);
    } catch (const worker::NoReport& error) {
      std::fprintf(stderr, "rank %s: %s\n", argv[2], error.what());
      code = probes::kExitNoReport;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %s: %s\n", argv[2], error.what());
    }
  }
  std::fflush(nullptr);
  _exit(code);  // libraries with threads of their own may hang or abort in their destructors
}
