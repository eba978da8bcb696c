#include "cli/doctor_checks.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "cli/devices_turn.h"
#include "cli/print_probe.h"
#include "cli/print_table.h"
#include "cli/problem_input.h"
#include "cli/progress.h"
#include "cli/self_test.h"
#include "cli/signals.h"
#include "cli/storage_input.h"
#include "cli/targets.h"
#include "estimator/devices.h"
#include "launcher/detect/cgroup.h"
#include "launcher/detect/gpus.h"
#include "launcher/detect/host.h"
#include "studies/store.h"

namespace planwright::cli {
namespace {

namespace fs = std::filesystem;

/// The smallest model that has every kind of layer.
ModelSpec tiny_model() {
  ModelSpec model;
  model.name = "doctor";
  model.hidden = 32;
  model.vocab = 128;
  model.max_positions = 32;
  model.runs = {{1,
                 {.heads = 4,
                  .kv_heads = 2,
                  .head_dim = 8,
                  .ffn = 64,
                  .mlp = MlpKind::gated,
                  .activation = Activation::silu,
                  .norm = NormKind::rms_norm}}};
  return model;
}

/// Two ranks, one thread each, `memory` for each of them.
ProblemInput tiny_problem(Bytes memory) {
  ProblemInput input;
  input.target = find_target({"builtin", "", ""});
  Problem& problem = input.problem;
  problem.model = tiny_model();
  problem.target = input.traits().name;
  problem.target_version = input.traits().version;
  problem.traits_revision = input.traits().revision;
  constexpr int kRanks = 2;
  DeviceSpec device = launcher::cpu_cluster(launcher::detect_host(), kRanks).device;
  device.memory = memory;
  problem.cluster = estimator::preset_cluster(device, kRanks, kRanks);
  problem.workload.seq = 32;
  problem.workload.global_batch = 2 * kRanks;
  problem.workload.precision = Precision::fp32;
  problem.workload.recipe = *input.traits().recipe(Precision::fp32);
  return input;
}

Outcome tiny_probe(Bytes memory, const launcher::RunOptions& options) {
  const ProblemInput input = tiny_problem(memory);
  Candidate candidate;
  candidate.dp = input.problem.cluster.devices();
  candidate.zero = 1;
  const ProbeScope scope{.warmup = 1, .steps = 1};
  return launcher::run_probe(
      launcher::make_train_job(input.problem, candidate, scope, input.traits(), 0), options);
}

Check host_check() {
  const launcher::HostFacts host = launcher::detect_host();
  const auto quota = launcher::cgroup_cpu_quota();
  return {"cpu", true,
          fmt::format("{}, {}{}", host.cpu_model, counted(host.physical_cores, "usable core"),
                      quota ? fmt::format(", CPU quota {:.1f}", *quota) : ""),
          ""};
}

Check memory_check() {
  const launcher::HostFacts host = launcher::detect_host();
  const auto limit = launcher::cgroup_memory_limit();
  return {"memory", true,
          fmt::format("{} GiB{}", gib_text(host.memory_total),
                      limit ? fmt::format(", cgroup limit {} GiB", gib_text(*limit)) : ""),
          ""};
}

Check gpu_check() {
  const launcher::GpuScan scan = launcher::detect_gpus();
  if (!scan.problem.empty()) {
    return {.name = "gpu",
            .ok = false,
            .detail = scan.problem,
            .fix = "check the NVIDIA driver; CPU measurements work without",
            .needed = false};
  }
  if (scan.gpus.empty()) return {"gpu", true, "none found; CPU measurements work without", ""};
  return {"gpu", true,
          fmt::format("{} x {}, driver {}", scan.gpus.size(), scan.gpus.front().name, scan.driver),
          ""};
}

Check worker_check(const launcher::RunOptions& options, DeviceKind device) {
  const std::string worker = launcher::worker_path(options, device);
  const bool found = access(worker.c_str(), X_OK) == 0;
  return {"worker", found, worker, found ? "" : "make it with ./dev build"};
}

/// Two ranks that train together: the worker starts, finds libtorch and talks over gloo.
std::vector<Check> training_checks(const launcher::RunOptions& options) {
  constexpr Bytes kPlenty{64 << 20};
  const Outcome outcome = tiny_probe(kPlenty, options);
  const bool ok = outcome.kind() == OutcomeKind::ok;
  std::vector<Check> checks{{"gloo", ok,
                             ok ? "two ranks trained together" : outcome_text(outcome, Paint{}),
                             ok ? "" : "see the message; is libtorch where the build found it?"}};
  const auto torch = outcome.environment.find("torch");
  if (torch != outcome.environment.end()) checks.push_back({"torch", true, torch->second, ""});
  return checks;
}

/// A budget that nothing fits in has to end a probe as out of memory.
Check budget_check(const launcher::RunOptions& options) {
  constexpr Bytes kLittle{64 << 10};
  const Outcome outcome = tiny_probe(kLittle, options);
  const bool ok = outcome.kind() == OutcomeKind::out_of_memory;
  return {
      "allocator", ok,
      ok ? "a memory budget is enforced"
         : fmt::format("a budget of 64 KiB was not enforced: {}", outcome_text(outcome, Paint{})),
      ok ? "" : "rebuild the worker with ./dev build"};
}

/// A new file in the database's folder, removed again, where there is no database yet.
Check store_check(const std::string& path) {
  std::error_code ignored;
  const bool exists = fs::exists(path, ignored);
  const std::string tried = exists ? path : fmt::format("{}.doctor-{}", path, getpid());
  Check check{"store", true, fmt::format("{} can be written", path), ""};
  try {
    studies::Store::open(tried, exists ? studies::OpenMode::read_write : studies::OpenMode::create);
  } catch (const std::runtime_error& error) {
    check = {"store", false, error.what(), "give another --storage"};
  }
  if (!exists) fs::remove(tried, ignored);
  return check;
}

}  // namespace

std::vector<Check> run_checks(const Settings& settings) {
  const launcher::RunOptions options =
      read_run_options(settings, *find_target({"builtin", "", ""}));
  std::vector<Check> checks{host_check(), memory_check(), gpu_check(),
                            worker_check(options, DeviceKind::cpu)};
  if (checks.back().ok) {
    for (Check& check : training_checks(options)) checks.push_back(std::move(check));
    checks.push_back(budget_check(options));
  }
  checks.push_back(store_check(storage_path(settings)));
  return checks;
}

std::vector<Check> run_gpu_checks(const Settings& settings, const Console& console) {
  std::vector<Check> checks = gpu_list(launcher::detect_gpus());
  if (!checks.back().ok) return checks;
  launcher::RunOptions options = read_run_options(settings, *find_target({"builtin", "", ""}));
  checks.push_back(worker_check(options, DeviceKind::cuda));
  if (!checks.back().ok) return checks;

  const launcher::DeviceLock lock = await_devices(console);
  ProbeProgress progress(console, "self-test", kSelfTestSteps);
  options.progress = [&](const launcher::ProgressEvent& event) { progress.show(event); };
  for (Check& check : self_test(DeviceKind::cuda, options)) checks.push_back(std::move(check));
  return checks;
}

}  // namespace planwright::cli
