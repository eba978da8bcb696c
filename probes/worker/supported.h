#pragma once

#include "probes/protocol/probe_request.h"

namespace planwright::worker {

/// Throws std::invalid_argument, with a sentence that names the axis and its value, if the worker
/// cannot run the job with `world` ranks. The target's rules refuse such plans before; this holds
/// when somebody else wrote the request.
void check_supported(const probes::TrainJob& job, int world);

}  // namespace planwright::worker
