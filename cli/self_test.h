#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/check.h"
#include "estimator/spec/cluster_spec.h"
#include "launcher/detect/gpus.h"
#include "launcher/probe_runner.h"

namespace planwright::cli {

/// Of each of its probes, warm-up included.
constexpr int kSelfTestSteps = 2;

/// Whether one device of this kind does what plans count on: its software, bytes against the
/// estimate, a shadow probe, and what comes after memory runs out. Three minutes at most on a GPU,
/// seconds on a CPU. Nothing but the first probe is tried if that one cannot run.
std::vector<Check> self_test(DeviceKind kind, const launcher::RunOptions& options);

/// The NVIDIA devices of this host, one row each; if there is none, one row that says what was
/// looked for, what came of it, and what to do.
std::vector<Check> gpu_list(const launcher::GpuScan& scan);

/// The software that the worker ran with, as its environment names it, against what it was built
/// with: `built_nccl` is the version of its header.
std::vector<Check> version_checks(const std::map<std::string, std::string>& environment,
                                  const std::string& built_nccl);

}  // namespace planwright::cli
