#pragma once

#include <string>

#include "estimator/spec/cluster_spec.h"

namespace planwright::cli {

/// `--cluster FILE.toml`: what a user knows better about a cluster than the data tables do.
///
///     host_memory = "2TiB"            # per node
///     pcie = "50GB/s"                 # host to device, per device
///     price_per_device_hour = 2.5
///     [[link]]                        # innermost first; instead of the tables' links
///     name = "nvlink"
///     bandwidth = "450GB/s"           # per device, one direction
///     latency_us = 2.0                # per message hop
///     span = 8                        # devices that it joins
///
/// An InputError for an unknown key, and where the last link does not span every device.
void apply_cluster_file(const std::string& path, ClusterSpec& cluster);
/// The same of a text that stands in `path`.
void apply_cluster_toml(const std::string& text, const std::string& path, ClusterSpec& cluster);

}  // namespace planwright::cli
