#include "estimator/clusters.h"

#include <algorithm>
#include <cmath>

#include "estimator/csv.h"
#include "estimator/devices.h"
#include "estimator/embedded.h"

namespace planwright::estimator {
namespace {

constexpr double kGigabitPerSecond = 1e9 / 8;

ClusterShape read_shape(const Csv& table, std::size_t row) {
  return {.name = table.cell(row, "name"),
          .provider = table.cell(row, "provider"),
          .device = table.cell(row, "device"),
          .per_node = static_cast<int>(table.number(row, "per_node", 1)),
          .nics = table.number_if_known(row, "nics_per_node"),
          .nic_gbit = table.number_if_known(row, "nic_gbit_per_s"),
          .network = table.cell(row, "network"),
          .host_memory_gib = table.number_if_known(row, "host_memory_gib"),
          .vcpus = table.number_if_known(row, "vcpus"),
          .pcie_generation = table.number_if_known(row, "pcie_gen"),
          .source = table.cell(row, "source")};
}

std::vector<const ClusterShape*> shapes_with(const DeviceSpec& device, std::string_view provider) {
  std::vector<const ClusterShape*> found;
  for (const ClusterShape& shape : cluster_shapes()) {
    const bool meant = provider.empty() || shape.provider == provider;
    if (shape.device == device.name && shape.network_known() && meant) found.push_back(&shape);
  }
  return found;
}

bool slower(const ClusterShape* a, const ClusterShape* b) {
  return a->device_network() < b->device_network();
}

}  // namespace

BytesPerSecond ClusterShape::device_network() const {
  return BytesPerSecond{*nics * *nic_gbit * kGigabitPerSecond / per_node};
}

const std::vector<ClusterShape>& cluster_shapes() {
  static const std::vector<ClusterShape> kShapes = [] {
    const Csv table(embedded_text("clusters.csv"), "clusters.csv");
    std::vector<ClusterShape> shapes;
    for (std::size_t row = 0; row < table.rows(); ++row) shapes.push_back(read_shape(table, row));
    return shapes;
  }();
  return kShapes;
}

const ClusterShape* find_cluster_shape(std::string_view name) {
  const auto& shapes = cluster_shapes();
  const auto found = std::find_if(shapes.begin(), shapes.end(), [&](const ClusterShape& shape) {
    return same_letters(shape.name, name);
  });
  return found == shapes.end() ? nullptr : &*found;
}

const ClusterShape* usual_node(const DeviceSpec& device) {
  std::vector<const ClusterShape*> nodes = shapes_with(device, device_facts(device).vendor);
  if (nodes.empty()) nodes = shapes_with(device, "");
  if (nodes.empty()) return nullptr;
  const auto middle = nodes.begin() + static_cast<std::ptrdiff_t>(nodes.size() / 2);
  std::stable_sort(nodes.begin(), nodes.end(), slower);
  return *middle;
}

ClusterSpec shape_cluster(const ClusterShape& shape, int devices) {
  const DeviceSpec device = find_device(shape.device, "clusters.csv", shape.name);
  ClusterSpec cluster = preset_cluster(device, devices, shape.per_node);
  if (cluster.nodes > 1 && shape.network_known()) {
    cluster.links.back().name = shape.network;
    cluster.links.back().bandwidth = shape.device_network();
  }
  if (shape.host_memory_gib) {
    cluster.host_memory = Bytes{std::llround(*shape.host_memory_gib * kGiB)};
  }
  if (shape.pcie_generation) cluster.pcie = pcie_bandwidth(*shape.pcie_generation, 16);
  return cluster;
}

std::vector<std::string> shape_link_sources(const ClusterShape& shape, int devices) {
  const DeviceSpec device = find_device(shape.device, "clusters.csv", shape.name);
  auto sources = preset_link_sources(device, devices, shape.per_node);
  if (sources.size() > 1 && shape.network_known()) {
    sources.back() = "what " + shape.name + " has, estimator/data/clusters.csv";
  }
  return sources;
}

}  // namespace planwright::estimator
