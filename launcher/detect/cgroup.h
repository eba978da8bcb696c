#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/spec/units.h"

namespace planwright::launcher {

/// The tightest memory limit on this process's cgroup (v1 or v2) and its ancestors; nullopt if
/// there is none.
std::optional<Bytes> cgroup_memory_limit(const std::string& root = "/");

/// CPUs' worth of time that the cgroup may use, from cpu.max or cpu.cfs_quota_us; nullopt if
/// unlimited.
std::optional<double> cgroup_cpu_quota(const std::string& root = "/");

/// How many processes the kernel has killed for want of memory: in this process's cgroup, or where
/// that keeps no count, on the whole machine. A rise during a run tells such a SIGKILL from others.
std::int64_t oom_kill_count(const std::string& root = "/");

}  // namespace planwright::launcher
