#pragma once

#include <string>
#include <vector>

#include "cli/settings.h"
#include "estimator/spec/cluster_spec.h"

namespace planwright::cli {

/// The devices that a problem is for.
struct ClusterInput {
  ClusterSpec cluster;
  std::vector<std::string> links_from;  ///< where the cluster's links are from, one for each
  std::string host_from{};              ///< where its host memory is from, if not the user's
  bool here = false;                    ///< they are in this host, so that a probe can run on them
  std::vector<std::string> assumed{};   ///< what a name was taken for
  std::vector<std::string> warnings;
};

/// [cluster]: a preset, this host's GPUs or its CPU, with what the user knows better.
ClusterInput read_cluster(const Settings& settings);

}  // namespace planwright::cli
