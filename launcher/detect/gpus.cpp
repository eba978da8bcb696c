#include "launcher/detect/gpus.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace planwright::launcher {
namespace {

/// The few entry points of NVML that are needed, as its header declares them.
/// Source: NVIDIA Management Library API Reference, nvml.h (r550).
using Device = struct nvmlDevice_st*;
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;
constexpr unsigned kNameLength = 96;

class Nvml {
 public:
  explicit Nvml(void* library) : library_(library, dlclose) {
    check(call<int()>("nvmlInit_v2")(), "nvmlInit_v2");
  }
  ~Nvml() {
    if (void* const symbol = dlsym(library_.get(), "nvmlShutdown")) {
      reinterpret_cast<int (*)()>(symbol)();
    }
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned count() const {
    unsigned count = 0;
    check(call<int(unsigned*)>("nvmlDeviceGetCount_v2")(&count), "nvmlDeviceGetCount_v2");
    return count;
  }

  Gpu gpu(unsigned index) const {
    Device device = nullptr;
    check(call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2")(index, &device),
          "nvmlDeviceGetHandleByIndex_v2");
    std::array<char, kNameLength> name{};
    check(call<int(Device, char*, unsigned)>("nvmlDeviceGetName")(device, name.data(), kNameLength),
          "nvmlDeviceGetName");
    Memory memory{};
    check(call<int(Device, Memory*)>("nvmlDeviceGetMemoryInfo")(device, &memory),
          "nvmlDeviceGetMemoryInfo");
    return {name.data(), Bytes{static_cast<std::int64_t>(memory.total)}};
  }

  std::string driver() const {
    std::array<char, kNameLength> version{};
    check(call<int(char*, unsigned)>("nvmlSystemGetDriverVersion")(version.data(), kNameLength),
          "nvmlSystemGetDriverVersion");
    return version.data();
  }

 private:
  template <class Function>
  Function* call(const char* name) const {
    void* const symbol = dlsym(library_.get(), name);
    if (symbol == nullptr) throw std::runtime_error(std::string("NVML has no ") + name);
    return reinterpret_cast<Function*>(symbol);
  }

  void check(int status, const char* what) const {
    if (status == kSuccess) return;
    const std::string reason = call<const char*(int)>("nvmlErrorString")(status);
    throw std::runtime_error(std::string(what) + ": " + reason);
  }

  std::unique_ptr<void, int (*)(void*)> library_;
};

}  // namespace

GpuScan detect_gpus(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {};
  GpuScan scan;
  try {
    const Nvml nvml(handle);
    scan.driver = nvml.driver();
    for (unsigned i = 0; i < nvml.count(); ++i) scan.gpus.push_back(nvml.gpu(i));
  } catch (const std::runtime_error& error) {
    scan.gpus.clear();
    scan.problem = error.what();
  }
  return scan;
}

}  // namespace planwright::launcher
