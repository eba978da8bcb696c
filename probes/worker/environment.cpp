#include "probes/worker/environment.h"

#include <ATen/Version.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <array>

#include "estimator/spec/sha256.h"
#include "planwright_version.h"
#include "probes/worker/device.h"

namespace planwright::worker {
namespace {

/// Tells hosts apart without saying their names.
std::string host_hash() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  constexpr std::size_t kDigits = 12;
  return sha256_hex(name.data()).substr(0, kDigits);
}

std::string kernel_release() {
  utsname names{};
  uname(&names);
  return names.release;
}

}  // namespace

std::map<std::string, std::string> environment(const probes::ProbeRequest& request,
                                               at::Device device) {
  std::map<std::string, std::string> out = device_environment(device);
  out["torch"] = TORCH_VERSION;
  out["compiler"] = __VERSION__;
  out["planwright"] = kVersion;
  out["revision"] = kGitRevision;
  out["world"] = std::to_string(request.world);
  out["threads"] = std::to_string(request.threads);
  out["host"] = host_hash();
  out["linux"] = kernel_release();
  out["cpu_capability"] = at::get_cpu_capability();
  return out;
}

}  // namespace planwright::worker
