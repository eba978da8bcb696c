#include "launcher/detect/cgroup.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace planwright::launcher {
namespace {

/// v1 writes "no limit" as the largest multiple of the page size below 2^63.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> number(const std::string& text) {
  std::istringstream stream(text);
  std::int64_t value = 0;
  if (!(stream >> value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  const auto line = first_line(path);
  return line ? number(*line) : std::nullopt;
}

/// The value behind `key` in a file of "key value" lines.
std::optional<std::int64_t> value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  std::string value;
  while (file >> name >> value) {
    if (name == key) return number(value);
  }
  return std::nullopt;
}

/// This process's place in the hierarchy that has `controller`; "" names the unified one (v2).
std::optional<std::string> place(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (names == ",," ? controller.empty()
                      : !controller.empty() && names.find("," + controller + ",") != names.npos) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// The folders from the process's cgroup up to the mount point. Inside a container the path may be
/// that of the host and not exist here: then only the mount point does.
std::vector<std::string> folders(const std::string& root, const std::string& controller) {
  const auto where = place(root, controller);
  if (!where) return {};
  const std::string mount = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::vector<std::string> chain;
  for (std::string path = *where; path.size() > 1 && path.front() == '/';
       path.erase(path.rfind('/'))) {
    chain.push_back(mount + path);
  }
  chain.push_back(mount);
  return chain;
}

}  // namespace

std::optional<Bytes> cgroup_memory_limit(const std::string& root) {
  std::int64_t limit = kNoLimit;
  const auto consider = [&](const std::string& path) {
    if (const auto value = number_in(path)) limit = std::min(limit, *value);
  };
  for (const std::string& folder : folders(root, "")) consider(folder + "/memory.max");
  for (const std::string& folder : folders(root, "memory")) {
    consider(folder + "/memory.limit_in_bytes");
  }
  if (limit >= kNoLimit) return std::nullopt;
  return Bytes{limit};
}

std::optional<double> cgroup_cpu_quota(const std::string& root) {
  double cpus = std::numeric_limits<double>::infinity();
  for (const std::string& folder : folders(root, "")) {
    std::istringstream line(first_line(folder + "/cpu.max").value_or("max"));
    double quota = 0;
    double period = 0;
    if (line >> quota >> period && period > 0) cpus = std::min(cpus, quota / period);
  }
  for (const std::string& folder : folders(root, "cpu")) {
    const auto quota = number_in(folder + "/cpu.cfs_quota_us");
    const auto period = number_in(folder + "/cpu.cfs_period_us");
    if (!quota || !period || *quota <= 0 || *period <= 0) continue;
    cpus = std::min(cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  if (cpus == std::numeric_limits<double>::infinity()) return std::nullopt;
  return cpus;
}

std::int64_t oom_kill_count(const std::string& root) {
  for (const std::string& folder : folders(root, "memory")) {
    if (const auto count = value_of(folder + "/memory.oom_control", "oom_kill")) return *count;
  }
  for (const std::string& folder : folders(root, "")) {
    if (const auto count = value_of(folder + "/memory.events", "oom_kill")) return *count;
  }
  return value_of(root + "/proc/vmstat", "oom_kill").value_or(0);
}

}  // namespace planwright::launcher
