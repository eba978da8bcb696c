#pragma once

#include <string>

#include "estimator/spec/cluster_spec.h"
#include "estimator/spec/units.h"

namespace planwright::launcher {

/// What this machine offers to the ranks of a CPU job.
struct HostFacts {
  std::string cpu_model;
  int physical_cores = 1;  ///< that this process may use: affinity and CPU quota counted
  Bytes memory_total;      ///< the machine's, or its cgroup's limit if that is smaller
  bool operator==(const HostFacts&) const = default;
};

/// Reads /proc and /sys below `root` (tests give a tree of their own). A WorldError if the memory
/// size cannot be read.
HostFacts detect_host(const std::string& root = "/");

/// The share of a host's memory that CPU "devices" divide among them. The rest is for the system,
/// the ranks' programs and libraries (0.3 GiB each with libtorch) and the page cache; a fixed
/// share, and not what happens to be free, so that the same machine gives the same Problem.
constexpr double kUsableHostShare = 0.8;

/// What a rank holds of the host by itself, once libtorch is loaded and its group joined: 216 of
/// them took 8 GB (measured). Pages that they share are counted once.
constexpr Bytes kIdleRank{37'000'000};

/// `devices` equal CPU devices on this host. Rates and links are unknown here (0) and come from the
/// micro-benchmark.
ClusterSpec cpu_cluster(const HostFacts& host, int devices);

}  // namespace planwright::launcher
