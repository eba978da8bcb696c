#include "cli/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

#include "cli/print_table.h"
#include "cli/self_test_ledger.h"
#include "cli/self_test_probes.h"
#include "launcher/detect/host.h"
#include "planwright_version.h"

namespace planwright::cli {
namespace {

void append(std::vector<Check>& checks, std::vector<Check> more) {
  std::move(more.begin(), more.end(), std::back_inserter(checks));
}

DeviceSpec device_of(DeviceKind kind) {
  if (kind == DeviceKind::cpu) return launcher::cpu_cluster(launcher::detect_host(), 1).device;
  const launcher::Gpu gpu = launcher::detect_gpus().gpus.at(0);
  DeviceSpec device;
  device.name = gpu.name;
  device.kind = kind;
  device.memory = device.memory_stated = gpu.memory_total;
  return device;
}

/// The numbers of "13.0" or "2.28.9"; missing ones are 0.
std::array<int, 3> numbers(const std::string& version) {
  std::array<int, 3> parts{};
  std::sscanf(version.c_str(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
  return parts;
}

std::string named(const std::map<std::string, std::string>& environment, const char* key) {
  const auto found = environment.find(key);
  return found == environment.end() ? "" : found->second;
}

/// A driver carries out what any CUDA of its own major version or an older one compiled. Source:
/// NVIDIA, CUDA Compatibility, "Minor Version Compatibility".
Check driver_check(const std::map<std::string, std::string>& environment) {
  const std::string cuda = named(environment, "cuda"), most = named(environment, "cuda_of_driver");
  const bool ok = numbers(most)[0] >= numbers(cuda)[0];
  const std::string driver = named(environment, "driver");
  return {"driver", ok,
          fmt::format("{}, for CUDA {}; the worker runs with CUDA {}",
                      driver.empty() ? "release not known" : driver, most, cuda),
          ok ? "" : fmt::format("install a driver for CUDA {}", numbers(cuda)[0])};
}

/// A newer library takes what an older header describes, and not the reverse.
Check nccl_check(const std::string& loaded, const std::string& built) {
  const bool ok = numbers(loaded)[0] == numbers(built)[0] && numbers(loaded) >= numbers(built);
  return {"nccl", ok, fmt::format("{} is loaded; the worker was built with {}", loaded, built),
          ok ? "" : "see that LD_LIBRARY_PATH and LD_PRELOAD name no older libnccl.so.2"};
}

Check out_of_memory_check(const SelfTestProbe& probe, const Outcome& outcome) {
  const bool ok = outcome.out_of_memory() != nullptr;
  return {probe.name, ok,
          fmt::format("with a limit of {} bytes: {}", probe.memory_limit->value,
                      unexpected_end_text(outcome)),
          ok ? ""
             : "a probe that fills the device must end as out_of_memory: report it with this "
               "output"};
}

bool same_bytes(const RankMeasurement& a, const RankMeasurement& b) {
  return a.loaded == b.loaded && a.step_end == b.step_end && a.peak == b.peak &&
         a.tensors == b.tensors;
}

/// The first probe once more, elsewhere in a row of probes.
Check again_check(const char* name, const Outcome& before, const Outcome& again) {
  const char* const kReport =
      "a probe must measure the same bytes whatever ran before it: report it with this output";
  if (again.measurement() == nullptr) return {name, false, unexpected_end_text(again), kReport};
  const RankMeasurement& one = before.measurement()->ranks.front();
  const RankMeasurement& other = again.measurement()->ranks.front();
  const bool ok = same_bytes(one, other);
  return {name, ok,
          fmt::format("the first probe again: peak {} bytes, at first {}",
                      other.allocated_peak().value, one.allocated_peak().value),
          ok ? "" : kReport};
}

/// All that follows the first probe, in as few sets of processes as it takes.
std::vector<Check> further_checks(const DeviceSpec& device, const SelfTestProbe& trace,
                                  const Outcome& traced, const launcher::RunOptions& options) {
  std::vector<SelfTestProbe> exact = table_probes(device);
  for (SelfTestProbe& probe : shadow_probes(device)) exact.push_back(std::move(probe));
  const SelfTestProbe overfull = overfull_probe(device);
  std::vector<probes::TrainJob> jobs;
  for (const SelfTestProbe& probe : exact) jobs.push_back(job_of(probe));
  for (const SelfTestProbe* probe : {&trace, &overfull, &trace}) jobs.push_back(job_of(*probe));
  const std::vector<Outcome> outcomes = launcher::run_probes(jobs, options);

  std::vector<Check> checks;
  auto outcome = outcomes.begin();
  for (const SelfTestProbe& probe : exact) checks.push_back(bytes_check(probe, *outcome++));
  checks.push_back(again_check("processes used again", traced, *outcome++));
  checks.push_back(out_of_memory_check(overfull, *outcome++));
  checks.push_back(again_check("recovery", traced, *outcome++));
  return checks;
}

}  // namespace

std::vector<Check> gpu_list(const launcher::GpuScan& scan) {
  std::vector<Check> checks;
  for (std::size_t i = 0; i < scan.gpus.size(); ++i) {
    const launcher::Gpu& gpu = scan.gpus[i];
    checks.push_back({fmt::format("gpu {}", i), true,
                      fmt::format("{}, {} GiB", gpu.name, gib_text(gpu.memory_total)), ""});
  }
  if (!checks.empty()) return checks;
  std::string why = "the driver's library libnvidia-ml.so.1 cannot be loaded";
  if (!scan.driver.empty()) why = fmt::format("the driver {} lists none", scan.driver);
  if (!scan.problem.empty()) why = fmt::format("the driver cannot be asked: {}", scan.problem);
  return {{"gpu", false, fmt::format("no NVIDIA device: {}", why),
           "install the NVIDIA driver, and give a container its devices (--gpus all); planwright "
           "doctor without --gpu tests measurements on CPUs"}};
}

std::vector<Check> version_checks(const std::map<std::string, std::string>& environment,
                                  const std::string& built_nccl) {
  std::vector<Check> checks;
  if (environment.contains("torch")) {
    checks.push_back({"torch", true, named(environment, "torch"), ""});
  }
  if (environment.contains("cuda")) checks.push_back(driver_check(environment));
  if (environment.contains("nccl")) {
    checks.push_back(nccl_check(named(environment, "nccl"), built_nccl));
  }
  return checks;
}

std::vector<Check> self_test(DeviceKind kind, const launcher::RunOptions& options) {
  const DeviceSpec device = device_of(kind);
  const SelfTestProbe trace = trace_probe(device);
  const Outcome traced = launcher::run_probe(job_of(trace), options);
  std::vector<Check> checks = version_checks(traced.environment, kNcclVersion);
  append(checks, trace_checks(trace, traced));
  if (traced.kind() == OutcomeKind::ok) {
    append(checks, further_checks(device, trace, traced, options));
  }
  return checks;
}

}  // namespace planwright::cli
