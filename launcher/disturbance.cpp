#include "launcher/disturbance.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "launcher/clock.h"
#include "launcher/detect/cgroup.h"

namespace planwright::launcher {
namespace {

/// The kernel counts in ticks of 10 ms per CPU; daemons of an idle machine stay below this share.
constexpr double kShortest_s = 0.5;
constexpr double kWorthAWord = 0.1;
/// Steps of the same work: a pause of the scheduler is some milliseconds.
constexpr double kSpreadFactor = 1.5;
constexpr double kSpread_s = 0.02;

/// user, nice, system, irq, softirq and steal of a "cpuN" line; guests are in user already. Source:
/// proc(5), /proc/stat.
double busy_ticks(std::istream& fields) {
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0, steal = 0;
  fields >> user >> nice >> system >> idle >> waiting >> irq >> soft >> steal;
  return user + nice + system + irq + soft + steal;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double used_by(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Under a quota the machine has other tenants by design, on CPUs that are not ours.
bool quota_in_force(const std::string& root, int cpus) {
  const auto quota = cgroup_cpu_quota(root);
  return quota && *quota < cpus;
}

}  // namespace

CpuUse cpu_use(const std::string& root) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  CpuUse use;
  std::ifstream file(root + "/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (name.rfind("cpu", 0) != 0 || name == "cpu") continue;
    const int cpu = std::atoi(name.c_str() + 3);
    if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) continue;
    use.machine_s += busy_ticks(fields) / static_cast<double>(sysconf(_SC_CLK_TCK));
    ++use.cpus;
  }
  if (quota_in_force(root, use.cpus)) use.cpus = 0;
  use.own_s = used_by(RUSAGE_SELF) + used_by(RUSAGE_CHILDREN);
  use.at_s = monotonic_s();
  return use;
}

std::optional<double> share_of_others(const CpuUse& begin, const CpuUse& end) {
  const double elapsed = end.at_s - begin.at_s;
  if (end.cpus == 0 || end.cpus != begin.cpus || elapsed < kShortest_s) return std::nullopt;
  const double others = (end.machine_s - begin.machine_s) - (end.own_s - begin.own_s);
  return std::clamp(others / (elapsed * end.cpus), 0.0, 1.0);
}

std::optional<std::string> disturbance_text(std::optional<double> others,
                                            const std::vector<double>& steps_s) {
  std::vector<std::string> parts;
  if (others && *others > kWorthAWord) {
    parts.push_back(fmt::format("other processes used {:.0f} % of the CPUs", 100 * *others));
  }
  if (!steps_s.empty()) {
    const auto [fastest, slowest] = std::minmax_element(steps_s.begin(), steps_s.end());
    if (*slowest > kSpreadFactor * *fastest && *slowest - *fastest > kSpread_s) {
      parts.push_back(
          fmt::format("steps took {:.0f} to {:.0f} ms", 1e3 * *fastest, 1e3 * *slowest));
    }
  }
  if (parts.empty()) return std::nullopt;
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace planwright::launcher
