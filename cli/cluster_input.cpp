#include "cli/cluster_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "cli/cluster_file.h"
#include "cli/sizes.h"
#include "estimator/devices.h"
#include "launcher/detect/gpus.h"
#include "launcher/detect/host.h"

namespace planwright::cli {
namespace {

constexpr int kCpuDevices = 2;
constexpr int kPerNode = 8;

std::optional<int> count(const Settings& settings, std::string_view name) {
  const Setting* setting = settings.find(Table::cluster, name);
  return setting == nullptr ? std::nullopt : std::optional(parse_count(*setting, 1));
}

void refuse_if_given(const Settings& settings, std::string_view name, const char* rule) {
  if (const Setting* setting = settings.find(Table::cluster, name)) refuse(*setting, rule);
}

/// Equal ranks on this host's cores.
ClusterInput cpu_devices(const Settings& settings) {
  const launcher::HostFacts host = launcher::detect_host();
  const int devices = count(settings, "devices").value_or(kCpuDevices);
  if (const auto per_node = count(settings, "per-node"); per_node && *per_node != devices) {
    refuse(*settings.find(Table::cluster, "per-node"),
           fmt::format("must be the number of devices, {}: CPU devices share one host", devices));
  }
  const ClusterSpec detected = launcher::cpu_cluster(host, devices);
  ClusterInput input;
  input.cluster = estimator::preset_cluster(detected.device, devices, devices);
  input.cluster.host_memory = detected.host_memory;
  input.cluster.threads_per_rank =
      count(settings, "threads").value_or(std::max(1, host.physical_cores / devices));
  input.here = true;
  return input;
}

/// `gpus` are alike; a host of mixed ones is planned for by its first kind.
std::optional<DeviceSpec> detected_device(const launcher::GpuScan& scan) {
  if (scan.gpus.empty()) return std::nullopt;
  return estimator::find_device(scan.gpus.front().name, "this host's driver", "GPU");
}

ClusterInput preset_devices(const Settings& settings, const DeviceSpec& device,
                            const launcher::GpuScan& scan) {
  refuse_if_given(settings, "threads", "is for CPU devices only");
  const auto found = detected_device(scan);
  const bool same = found && found->name == device.name;
  const int present = same ? static_cast<int>(scan.gpus.size()) : 0;
  const int devices = count(settings, "devices").value_or(std::max(1, present));
  const int per_node = count(settings, "per-node").value_or(std::min(devices, kPerNode));
  ClusterInput input;
  input.cluster = estimator::preset_cluster(device, devices, per_node);
  input.here = devices <= present;
  return input;
}

ClusterInput choose(const Settings& settings) {
  const Setting* given = settings.find(Table::cluster, "device");
  const Setting device = given == nullptr ? Setting{"auto", "", ""} : *given;
  if (device.text == "cpu") return cpu_devices(settings);
  const launcher::GpuScan scan = launcher::detect_gpus();
  if (device.text != "auto") {
    return preset_devices(settings, estimator::find_device(device.text, device.file, device.key),
                          scan);
  }
  const auto found = detected_device(scan);
  ClusterInput input = found ? preset_devices(settings, *found, scan) : cpu_devices(settings);
  if (!scan.problem.empty()) {
    input.warnings.push_back(
        fmt::format("GPUs cannot be asked, so the CPU is used: {}", scan.problem));
  }
  return input;
}

}  // namespace

ClusterInput read_cluster(const Settings& settings) {
  ClusterInput input = choose(settings);
  if (const Setting* memory = settings.find(Table::cluster, "memory")) {
    input.cluster.device.memory = parse_size(*memory);
  }
  if (const Setting* file = settings.find(Table::cluster, "cluster")) {
    apply_cluster_file(file->text, input.cluster);
  }
  return input;
}

}  // namespace planwright::cli
