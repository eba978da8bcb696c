#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <torch/csrc/cuda/nccl.h>

#include <fstream>
#include <optional>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>

#include "probes/worker/device.h"

namespace planwright::worker {
namespace {

/// libtorch and the worker must have been compiled with one NCCL: a structure that they pass by
/// value grows between its releases.
void check_nccl() {
  constexpr std::uint64_t kOurs = (std::uint64_t{NCCL_MAJOR} << 32) |
                                  (std::uint64_t{NCCL_MINOR} << 16) | std::uint64_t{NCCL_PATCH};
  if (torch::cuda::nccl::version() != kOurs) {
    throw std::runtime_error("libtorch was built with another NCCL than the worker's " +
                             std::to_string(NCCL_VERSION_CODE));
  }
}

/// "570.86.15"; nullopt if the kernel does not say.
std::optional<std::string> driver_release() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string release;
  return file >> release ? std::optional(release) : std::nullopt;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

at::Device open_device(int rank) {
  check_nccl();
  const auto count = c10::cuda::device_count_ensure_non_zero();
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(rank % count));
  c10::cuda::set_device(device.index());
  return device;
}

void synchronize(at::Device) { c10::cuda::device_synchronize(); }

std::map<std::string, std::string> device_environment(at::Device device) {
  const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(device.index());
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::map<std::string, std::string> out{{"device", properties.name},
                                         {"cuda", version_text(runtime)},
                                         {"cuda_of_driver", version_text(driver)},
                                         {"nccl", c10d::getNcclVersion()}};
  if (const auto release = driver_release()) out["driver"] = *release;
  return out;
}

}  // namespace planwright::worker
