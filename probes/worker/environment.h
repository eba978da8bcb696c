#pragma once

#include <c10/core/Device.h>

#include <map>
#include <string>

#include "probes/protocol/probe_request.h"

namespace planwright::worker {

/// What a measurement depends on besides the job: versions, device, host, threads.
std::map<std::string, std::string> environment(const probes::ProbeRequest& request,
                                               at::Device device);

}  // namespace planwright::worker
