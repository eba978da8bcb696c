#include "cli/prior.h"

#include <fmt/core.h>

#include <optional>
#include <string>

#include "cli/devices_turn.h"
#include "estimator/calibrate.h"
#include "launcher/host_rates.h"

namespace planwright::cli {
namespace {

/// The rates of the devices that this host has; none for those of a data sheet.
std::optional<HostRates> read_rates(const ProblemInput& input, const Settings& settings,
                                    Benchmark benchmark, const Console& console) {
  if (!input.devices_here || settings.marked(Table::budget, "no-benchmark")) return std::nullopt;
  const ClusterSpec& cluster = input.problem.cluster;
  const launcher::RatesQuery query{.world = cluster.devices(),
                                   .threads = cluster.threads_per_rank,
                                   .device = cluster.device.kind,
                                   .device_model = cluster.device.name};
  const launcher::RunOptions options = read_run_options(settings, *input.target);
  if (!input.target->has_worker && !worker_is_there(input, options)) {
    console.detail(
        "the worker, which measures this host's rates, is not built: times come from "
        "wide priors");
    return std::nullopt;
  }
  launcher::RatesCache cache;
  cache.warn = [&](const std::string& text) { console.warning(text); };
  if (auto known = launcher::known_host_rates(query, options, cache)) return known;
  if (benchmark == Benchmark::if_known) {
    console.detail("this host's rates were never measured: times come from wide priors");
    return std::nullopt;
  }
  const launcher::DeviceLock lock = await_devices(console);
  if (auto known = launcher::known_host_rates(query, options, cache)) return known;
  console.story(fmt::format("measuring this host's rates with {} ranks (kept for the next run)",
                            query.world));
  return launcher::host_rates(query, options, cache);
}

}  // namespace

Calibration read_prior(const ProblemInput& input, const Settings& settings, Benchmark benchmark,
                       const Console& console) {
  const auto rates = read_rates(input, settings, benchmark, console);
  return estimator::prior_calibration(input.problem, input.traits(), rates);
}

}  // namespace planwright::cli
