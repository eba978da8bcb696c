#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/cluster_spec.h"
#include "estimator/spec/workload.h"

namespace planwright::estimator {

/// The accelerators of estimator/data/gpus.csv and the CPU sockets of cpus.csv, in that order.
/// Where the first has no usable memory, it is the stated memory times the smallest usable share of
/// any row that has both. A socket's usable memory is 0: whatever its owner put in.
const std::vector<DeviceSpec>& device_presets();

/// What the table says of a preset besides; empty or absent where it says nothing.
struct DeviceFacts {
  std::string vendor, architecture, compute_capability{};
  std::optional<double> cores{};           ///< of a CPU
  std::optional<BytesPerSecond> nvlink{};  ///< of one device, one direction, all links together
  std::optional<double> pcie_generation{}, pcie_lanes{};
};
DeviceFacts device_facts(const DeviceSpec& device);
/// 0 if the table does not say.
double compute_capability(const DeviceSpec& device);
/// The data sheet's for products of such operands.
std::optional<FlopsPerSecond> stated_peak(const DeviceSpec& device, DType type);

/// Of one device to its host, one direction. The generation must be one of links.csv.
BytesPerSecond pcie_bandwidth(double generation, double lanes);

/// The preset with this name or alias (estimator/data/device_aliases.csv), capitals, blanks, dashes
/// and a leading vendor's name apart. Unknown or ambiguous: an InputError that names `file`, `key`
/// and what could be meant.
DeviceSpec find_device(std::string_view name, const std::string& file, const std::string& key);

/// The presets that `name` may mean: none, one or several.
std::vector<std::string> devices_named(std::string_view name);

/// Whether `name` is the preset's own and no alias, capitals and the like apart.
bool is_own_name(const DeviceSpec& device, std::string_view name);
/// What a shorter name, which means several devices, means beside this one, as far as their names
/// have every word of `name`: other forms of it.
std::vector<std::string> forms_beside(const DeviceSpec& device, std::string_view name);

/// A cluster of `devices` such devices, `per_node` in each node (all in one if there are fewer),
/// with the links of the data tables: NVLink or PCIe inside a node, the loopback between CPUs, and
/// between nodes the network of the device's usual node (estimator/clusters), or else the default
/// one. An InputError if the nodes do not come out whole.
ClusterSpec preset_cluster(const DeviceSpec& device, int devices, int per_node);
/// Where those links are from, one for each.
std::vector<std::string> preset_link_sources(const DeviceSpec& device, int devices, int per_node);

}  // namespace planwright::estimator
