#include "cli/cluster_input.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "cli/cluster_file.h"
#include "cli/sizes.h"
#include "estimator/clusters.h"
#include "estimator/devices.h"
#include "launcher/detect/gpus.h"
#include "launcher/detect/host.h"

namespace planwright::cli {
namespace {

constexpr int kCpuDevices = 2;
constexpr int kPerNode = 8;
constexpr int kSocketsPerNode = 2;

std::optional<int> count(const Settings& settings, std::string_view name) {
  const Setting* setting = settings.find(Table::cluster, name);
  return setting == nullptr ? std::nullopt : std::optional(parse_count(*setting, 1));
}

void refuse_if_given(const Settings& settings, std::string_view name, const char* rule) {
  if (const Setting* setting = settings.find(Table::cluster, name)) refuse(*setting, rule);
}

/// Of the data tables.
ClusterInput of_preset(const DeviceSpec& device, int devices, int per_node) {
  ClusterInput input;
  input.cluster = estimator::preset_cluster(device, devices, per_node);
  input.links_from = estimator::preset_link_sources(device, devices, per_node);
  return input;
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
  ClusterInput input = of_preset(detected.device, devices, devices);
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

/// Nodes are whole, or there is one that is not full.
void require_whole_nodes(const Settings& settings, int devices, int per_node,
                         const std::string& what) {
  if (devices <= per_node || devices % per_node == 0) return;
  const int less = devices / per_node * per_node;
  const Setting* typed = settings.find(Table::cluster, "devices");
  refuse(typed != nullptr ? *typed : Setting{std::to_string(devices), kCommandLine, "--devices"},
         fmt::format("must be whole nodes of {}, as {}", per_node, what),
         fmt::format("{} or {}", less, less + per_node));
}

/// As told, or `usual`, of which the devices must then fill whole nodes.
int devices_per_node(const Settings& settings, int devices, int usual) {
  const auto given = count(settings, "per-node");
  if (!given) require_whole_nodes(settings, devices, usual, "--per-node does not say otherwise");
  return given.value_or(std::min(devices, usual));
}

/// Sockets of a CPU that is known by name, with the memory that the user says they have.
ClusterInput sockets(const Settings& settings, const DeviceSpec& device) {
  refuse_if_given(settings, "threads", "is for this host's CPU only");
  if (settings.find(Table::cluster, "memory") == nullptr) {
    refuse({"", kCommandLine, "--memory"},
           fmt::format("is required for {}: a socket has the memory that was put in", device.name));
  }
  const int devices = count(settings, "devices").value_or(1);
  const int per_node = devices_per_node(settings, devices, kSocketsPerNode);
  ClusterInput input = of_preset(device, devices, per_node);
  input.cluster.threads_per_rank =
      static_cast<int>(estimator::device_facts(device).cores.value_or(1));
  return input;
}

/// A node's memory: this host's, or what such devices' nodes usually have.
void take_host_memory(ClusterInput& input) {
  if (input.here) {
    input.cluster.host_memory = launcher::detect_host().memory_total;
    input.host_from = "this host's";
    return;
  }
  const estimator::ClusterShape* usual = estimator::usual_node(input.cluster.device);
  if (usual == nullptr || !usual->host_memory_gib) return;
  input.cluster.host_memory = estimator::shape_cluster(*usual, usual->per_node).host_memory;
  input.host_from = "taken as in " + usual->name;
}

ClusterInput preset_devices(const Settings& settings, const DeviceSpec& device,
                            const launcher::GpuScan& scan) {
  if (device.kind == DeviceKind::cpu) return sockets(settings, device);
  refuse_if_given(settings, "threads", "is for CPU devices only");
  const auto found = detected_device(scan);
  const bool same = found && found->name == device.name;
  const int present = same ? static_cast<int>(scan.gpus.size()) : 0;
  const int devices = count(settings, "devices").value_or(std::max(1, present));
  const int per_node = devices_per_node(settings, devices, kPerNode);
  ClusterInput input = of_preset(device, devices, per_node);
  input.here = devices <= present;
  take_host_memory(input);
  return input;
}

/// A node shape that --cluster names; a file of that name wins.
const estimator::ClusterShape* given_shape(const Settings& settings) {
  const Setting* cluster = settings.find(Table::cluster, "cluster");
  std::error_code error;
  if (cluster == nullptr || std::filesystem::exists(cluster->text, error)) return nullptr;
  return estimator::find_cluster_shape(cluster->text);
}

/// Which device a name that is not its own is taken for, and what else is called so.
std::string assumed_device(const Setting& given, const DeviceSpec& device) {
  const std::vector<std::string> others = estimator::forms_beside(device, given.text);
  const std::string beside =
      others.empty() ? "" : fmt::format("; {} would be another", join_words(others));
  return fmt::format("device {} is taken for {}{}", given.text, device.name, beside);
}

/// `auto` leaves the choice to the shape, and so does a name that may mean its device.
bool is_device(const Setting& given, const std::string& name) {
  if (given.text == "auto" || given.text == "cpu") return given.text == "auto";
  const auto meant = estimator::devices_named(given.text);
  if (meant.empty()) estimator::find_device(given.text, given.file, given.key);
  return std::find(meant.begin(), meant.end(), name) != meant.end();
}

ClusterInput shape_devices(const Settings& settings, const estimator::ClusterShape& shape) {
  refuse_if_given(settings, "threads", "is for CPU devices only");
  const Setting* device = settings.find(Table::cluster, "device");
  if (device != nullptr && !is_device(*device, shape.device)) {
    refuse(*device, fmt::format("is not the device of {}", shape.name), shape.device);
  }
  const int devices = count(settings, "devices").value_or(shape.per_node);
  if (const auto per_node = count(settings, "per-node");
      per_node && *per_node != std::min(devices, shape.per_node)) {
    refuse(*settings.find(Table::cluster, "per-node"),
           fmt::format("is not what {} has", shape.name), std::to_string(shape.per_node));
  }
  require_whole_nodes(settings, devices, shape.per_node, shape.name + " has");
  const launcher::GpuScan scan = launcher::detect_gpus();
  const auto found = detected_device(scan);
  ClusterInput input;
  input.cluster = estimator::shape_cluster(shape, devices);
  input.links_from = estimator::shape_link_sources(shape, devices);
  input.here =
      found && found->name == shape.device && devices <= static_cast<int>(scan.gpus.size());
  if (input.cluster.nodes > 1 && !shape.network_known()) {
    input.warnings.push_back(
        fmt::format("what joins nodes of {} is not known: {:.1f} GB/s per device, {}", shape.name,
                    input.cluster.links.back().bandwidth.value / 1e9, input.links_from.back()));
  }
  return input;
}

ClusterInput choose(const Settings& settings, const estimator::ClusterShape* shape) {
  if (shape != nullptr) return shape_devices(settings, *shape);
  const Setting* given = settings.find(Table::cluster, "device");
  const Setting device = given == nullptr ? Setting{"auto", "", ""} : *given;
  if (device.text == "cpu") return cpu_devices(settings);
  const launcher::GpuScan scan = launcher::detect_gpus();
  if (device.text != "auto") {
    if (estimator::find_cluster_shape(device.text) != nullptr) {
      refuse(device, "is a node, not a device", "--cluster " + device.text);
    }
    const DeviceSpec found = estimator::find_device(device.text, device.file, device.key);
    ClusterInput input = preset_devices(settings, found, scan);
    if (!estimator::is_own_name(found, device.text)) {
      input.assumed.push_back(assumed_device(device, found));
    }
    return input;
  }
  const auto found = detected_device(scan);
  ClusterInput input = found ? preset_devices(settings, *found, scan) : cpu_devices(settings);
  if (!scan.problem.empty()) {
    input.warnings.push_back(
        fmt::format("GPUs cannot be asked, so the CPU is used: {}", scan.problem));
  }
  return input;
}

void warn_of_much_memory(ClusterInput& input) {
  const DeviceSpec& device = input.cluster.device;
  if (device.memory_stated.value == 0 || device.memory <= device.memory_stated) return;
  input.warnings.push_back(fmt::format("{:.4g} GiB are more than the {:.4g} that are known of {}",
                                       gib(device.memory), gib(device.memory_stated), device.name));
}

/// What has no dot-toml is more likely a shape's name than a file's.
void require_file_or_shape(const Setting& cluster) {
  std::error_code error;
  if (cluster.text.ends_with(".toml") || std::filesystem::exists(cluster.text, error)) return;
  std::vector<std::string> names;
  for (const auto& shape : estimator::cluster_shapes()) names.push_back(shape.name);
  std::vector<std::string> longer;
  for (const std::string& name : names) {
    if (name.starts_with(cluster.text)) longer.push_back(name);
  }
  refuse(cluster, "is neither a file nor a node that `planwright devices` lists",
         longer.empty() ? nearest_word(cluster.text, names) : join_words(longer));
}

}  // namespace

ClusterInput read_cluster(const Settings& settings) {
  const estimator::ClusterShape* shape = given_shape(settings);
  ClusterInput input = choose(settings, shape);
  if (const Setting* memory = settings.find(Table::cluster, "memory")) {
    input.cluster.device.memory = parse_size(*memory);
    warn_of_much_memory(input);
  }
  const Setting* file = settings.find(Table::cluster, "cluster");
  if (file != nullptr && shape == nullptr) {
    require_file_or_shape(*file);
    const std::vector<Link> before = input.cluster.links;
    const auto memory = input.cluster.host_memory;
    apply_cluster_file(file->text, input.cluster);
    if (input.cluster.host_memory != memory) input.host_from.clear();
    if (input.cluster.links != before) {
      input.links_from.assign(input.cluster.links.size(), file->text);
    }
  }
  return input;
}

}  // namespace planwright::cli
