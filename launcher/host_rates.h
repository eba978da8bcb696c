#pragma once

#include <functional>
#include <optional>
#include <string>

#include "estimator/spec/cluster_spec.h"
#include "estimator/spec/host_rates.h"
#include "launcher/probe_runner.h"

namespace planwright::launcher {

struct RatesQuery {
  int world = 1;
  int threads = 1;  ///< per rank
  DeviceKind device = DeviceKind::cpu;
  std::string device_model;  ///< the CPU's or GPU's name
};

struct RatesCache {
  std::string folder;                            ///< empty: ${XDG_CACHE_HOME:-~/.cache}/planwright
  bool refresh = false;                          ///< measure even if there is a cached value
  std::function<void(const std::string&)> warn;  ///< told if the cache cannot be written
};

/// What this machine does under `world` ranks at once. Measured once by the worker's benchmark job
/// and cached; a cached value counts for the same query and the same worker file (size and time of
/// change), anything unreadable is measured again. A WorldError if the benchmark fails.
HostRates host_rates(const RatesQuery& query, const RunOptions& options, const RatesCache& cache);

/// The cached value alone; nullopt if there is none. Starts nothing.
std::optional<HostRates> known_host_rates(const RatesQuery& query, const RunOptions& options,
                                          const RatesCache& cache);

}  // namespace planwright::launcher
