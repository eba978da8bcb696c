#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/cluster_spec.h"

/// Machines that are sold or rented with their devices: the rows of estimator/data/clusters.csv.
namespace planwright::estimator {

struct ClusterShape {
  std::string name;
  std::string provider;
  std::string device;  ///< a device preset
  int per_node = 1;
  std::optional<double> nics;      ///< of the network between nodes
  std::optional<double> nic_gbit;  ///< of each, Gbit/s
  std::string network;
  std::optional<double> host_memory_gib;
  std::optional<double> vcpus;
  std::optional<double> pcie_generation;
  std::string source;

  bool network_known() const { return nics && nic_gbit; }
  /// Of each device, one direction: an equal part of the node's. It must be known.
  BytesPerSecond device_network() const;
};

const std::vector<ClusterShape>& cluster_shapes();

/// The shape of that name, capitals apart; null if there is none.
const ClusterShape* find_cluster_shape(std::string_view name);

/// What joins nodes of this device where nobody says: that of its maker's own node, if there is
/// one, else of the middle of all nodes that have it. Null if no such network is known.
const ClusterShape* usual_node(const DeviceSpec& device);

/// `devices` of its devices in such nodes: the device's own links inside a node, an equal part of
/// the node's network cards for each device between nodes.
ClusterSpec shape_cluster(const ClusterShape& shape, int devices);
/// Where the links of that are from, one for each.
std::vector<std::string> shape_link_sources(const ClusterShape& shape, int devices);

}  // namespace planwright::estimator
