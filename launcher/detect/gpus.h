#pragma once

#include <string>
#include <vector>

#include "estimator/spec/units.h"

namespace planwright::launcher {

struct Gpu {
  std::string name;  ///< as the driver calls it: "NVIDIA H200"
  Bytes memory_total;
  bool operator==(const Gpu&) const = default;
};

struct GpuScan {
  std::vector<Gpu> gpus;
  std::string driver;   ///< version; empty without one
  std::string problem;  ///< why GPUs that may be there cannot be asked; empty if all is well
};

/// Asks NVML, loaded by name so that a machine without a driver needs none. No library: no GPUs and
/// no problem. A library that fails: no GPUs, and the problem says what failed.
GpuScan detect_gpus(const std::string& library = "libnvidia-ml.so.1");

}  // namespace planwright::launcher
