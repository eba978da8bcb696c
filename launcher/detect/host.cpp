#include "launcher/detect/host.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "estimator/spec/error.h"
#include "launcher/detect/cgroup.h"

namespace planwright::launcher {
namespace {

/// One "processor" paragraph of /proc/cpuinfo. Without topology lines (ARM, some virtual machines)
/// every logical CPU counts as a core.
struct LogicalCpu {
  int processor = 0;
  int package = 0;
  std::optional<int> core;
  std::string model;
};

std::pair<std::string, std::string> key_value(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return {};
  const std::size_t key_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
  const std::size_t value = line.find_first_not_of(" \t", colon + 1);
  return {line.substr(0, key_end + 1), value == std::string::npos ? "" : line.substr(value)};
}

std::vector<LogicalCpu> read_cpus(const std::string& root) {
  std::vector<LogicalCpu> cpus;
  std::ifstream file(root + "/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const auto [key, value] = key_value(line);
    if (key == "processor") cpus.emplace_back().processor = std::atoi(value.c_str());
    if (cpus.empty()) continue;
    if (key == "physical id") cpus.back().package = std::atoi(value.c_str());
    if (key == "core id") cpus.back().core = std::atoi(value.c_str());
    if (key == "model name") cpus.back().model = value;
  }
  return cpus;
}

/// "0-3,8" of Cpus_allowed_list; nullopt if the kernel does not say.
std::optional<std::set<int>> allowed_cpus(const std::string& root) {
  std::ifstream file(root + "/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    const auto [key, list] = key_value(line);
    if (key != "Cpus_allowed_list") continue;
    std::set<int> allowed;
    std::istringstream ranges(list);
    std::string range;
    while (std::getline(ranges, range, ',')) {
      const int first = std::atoi(range.c_str());
      const std::size_t dash = range.find('-');
      const int last = dash == std::string::npos ? first : std::atoi(range.c_str() + dash + 1);
      for (int cpu = first; cpu <= last; ++cpu) allowed.insert(cpu);
    }
    return allowed;
  }
  return std::nullopt;
}

int usable_cores(const std::vector<LogicalCpu>& cpus, const std::string& root) {
  const auto allowed = allowed_cpus(root);
  std::set<std::pair<int, int>> cores;
  for (const LogicalCpu& cpu : cpus) {
    if (allowed && allowed->count(cpu.processor) == 0) continue;
    cores.insert({cpu.package, cpu.core.value_or(cpu.processor)});
  }
  int count = static_cast<int>(cores.size());
  if (const auto quota = cgroup_cpu_quota(root)) {
    count = std::min(count, static_cast<int>(std::ceil(*quota)));
  }
  return std::max(1, count);
}

Bytes machine_memory(const std::string& root) {
  const std::string path = root + "/proc/meminfo";
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const auto [key, value] = key_value(line);
    if (key == "MemTotal") return Bytes{std::atoll(value.c_str()) * 1024};  // it counts in KiB
  }
  throw WorldError("cannot read the memory size from " + path);
}

}  // namespace

HostFacts detect_host(const std::string& root) {
  const auto cpus = read_cpus(root);
  HostFacts facts;
  facts.cpu_model = cpus.empty() || cpus.front().model.empty() ? "unknown CPU" : cpus.front().model;
  facts.physical_cores = usable_cores(cpus, root);
  facts.memory_total = machine_memory(root);
  if (const auto limit = cgroup_memory_limit(root)) {
    facts.memory_total = std::min(facts.memory_total, *limit);
  }
  return facts;
}

ClusterSpec cpu_cluster(const HostFacts& host, int devices) {
  ClusterSpec cluster;
  cluster.device.name = host.cpu_model;
  cluster.device.kind = DeviceKind::cpu;
  cluster.device.memory_stated = Bytes{host.memory_total.value / devices};
  const double share = kUsableHostShare * static_cast<double>(host.memory_total.value);
  cluster.device.memory = Bytes{static_cast<std::int64_t>(share) / devices};
  cluster.device.source = "detected: /proc/cpuinfo, /proc/meminfo, cgroup limits";
  cluster.per_node = devices;
  cluster.links = {Link{.name = "host memory", .bandwidth = {}, .latency = {}, .span = devices}};
  cluster.threads_per_rank = std::max(1, host.physical_cores / devices);
  return cluster;
}

}  // namespace planwright::launcher
