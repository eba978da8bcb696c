#pragma once

#include <c10/core/Device.h>

#include <map>
#include <string>

#include "estimator/spec/target_traits.h"

namespace planwright::worker {

/// The device of this rank; made the current one. Call after install_device_memory.
at::Device open_device(int rank);

/// Returns when everything queued on the device has been carried out.
void synchronize(at::Device device);

/// What the device adds to the environment fingerprint.
std::map<std::string, std::string> device_environment(at::Device device);

}  // namespace planwright::worker
