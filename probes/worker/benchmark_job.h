#pragma once

#include "probes/protocol/probe_request.h"
#include "probes/worker/train_job.h"

namespace planwright::worker {

/// Measures rates with all ranks at once, in about a second; medians of repeats.
HostRates run_benchmark_job(const probes::ProbeRequest& request, const Rank& rank);

}  // namespace planwright::worker
