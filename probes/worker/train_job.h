#pragma once

#include <ATen/core/Tensor.h>

#include "probes/protocol/probe_report.h"
#include "probes/protocol/probe_request.h"
#include "probes/worker/collectives.h"
#include "probes/worker/progress.h"

namespace planwright::worker {

/// What a rank has for the whole of its life.
struct Rank {
  at::Device device;
  Collectives& collectives;
  const Progress& progress;
};

/// Trains as `job` says and fills job_report as far as it comes; `report` gets the start of the
/// process's first step. Throws std::invalid_argument if the worker cannot run the plan, and
/// whatever ends the job: DeviceOutOfMemory, PeerFailed.
void run_train_job(const probes::TrainJob& job, const Rank& rank, probes::RankReport& report,
                   probes::RankJobReport& job_report);

}  // namespace planwright::worker
