#include <fstream>

#include "probes/worker/device.h"

namespace planwright::worker {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

}  // namespace

at::Device open_device(int) { return at::kCPU; }

void synchronize(at::Device) {}

std::map<std::string, std::string> device_environment(at::Device) {
  return {{"device", cpu_model()}};
}

}  // namespace planwright::worker
