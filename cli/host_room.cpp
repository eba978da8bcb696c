#include "cli/host_room.h"

#include <fmt/core.h>

#include <string_view>

#include "cli/print_table.h"
#include "launcher/detect/host.h"

namespace planwright::cli {
namespace {

Setting cluster_setting(const Settings& settings, std::string_view name, int value) {
  const Setting* setting = settings.find(Table::cluster, name);
  if (setting != nullptr) return *setting;
  return {std::to_string(value), "", fmt::format("--{}", name)};
}

}  // namespace

std::vector<std::string> require_host_room(const Settings& settings, const ProblemInput& input) {
  const ClusterSpec& cluster = input.problem.cluster;
  if (cluster.device.kind != DeviceKind::cpu) return {};
  const launcher::HostFacts host = launcher::detect_host();
  const int cores = host.physical_cores, threads = cluster.threads_per_rank;
  if (threads > cores) {
    refuse(cluster_setting(settings, "threads", threads),
           fmt::format("must be at most {}, the cores of this host", cores), std::to_string(cores));
  }
  const std::int64_t ranks = cluster.devices();
  const std::int64_t most = host.memory_total.value / launcher::kIdleRank.value;
  if (ranks > most) {
    refuse(cluster_setting(settings, "devices", cluster.devices()),
           fmt::format("must be at most {} on this host: a rank takes {:.3f} GiB before it holds a "
                       "tensor, and the host has {:.1f} GiB",
                       most, gib(launcher::kIdleRank), gib(host.memory_total)),
           std::to_string(most));
  }
  if (ranks * threads <= cores) return {};
  return {
      fmt::format("{} of {} share {} of this host: steps take longer than predicted for ranks "
                  "that have theirs alone",
                  counted(ranks, "rank"), counted(threads, "thread"), counted(cores, "core"))};
}

}  // namespace planwright::cli
