#include "cli/row_contradictions.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "cli/row_words.h"
#include "estimator/devices.h"

namespace planwright::cli {
namespace {

/// Of 2^30 and 10^9 bytes sources mean either, and they round to a hundredth at the worst.
constexpr double kBetweenUnits = 1.01 * kGiB / 1e9;

/// The accelerators that a row's `gpu` may mean. Sockets and unified memory have what their owner
/// bought.
std::vector<DeviceSpec> devices_of(const MeasuredRow& row) {
  std::vector<DeviceSpec> devices;
  for (const std::string& name : estimator::devices_named(meaning("gpu", row.text("gpu")))) {
    const DeviceSpec device = estimator::find_device(name, "", "gpu");
    const bool fixed = device.kind == DeviceKind::cuda &&
                       estimator::device_facts(device).architecture != "unified";
    if (!fixed) return {};
    devices.push_back(device);
  }
  return devices;
}

/// What is advertised, in either unit, or what a driver says of it.
bool may_have(const DeviceSpec& device, double gigabytes) {
  const double stated = gib(device.memory_stated);
  return gigabytes >= std::min(gib(device.memory), stated / kBetweenUnits) &&
         gigabytes <= stated * kBetweenUnits;
}

std::optional<Contradiction> wrong_memory(const MeasuredRow& row) {
  const auto gigabytes = row.number("gpu_mem_gb");
  const std::vector<DeviceSpec> devices = devices_of(row);
  if (!gigabytes || devices.empty()) return std::nullopt;
  std::vector<std::string> memories;
  for (const DeviceSpec& device : devices) {
    if (may_have(device, *gigabytes)) return std::nullopt;
    memories.push_back(fmt::format("{:.0f}", gib(device.memory_stated)));
  }
  memories.erase(std::unique(memories.begin(), memories.end()), memories.end());
  return Contradiction{"gpu_mem_gb", fmt::format("is not the memory of gpu {}, which has {}",
                                                 row.text("gpu"), join_words(memories))};
}

/// Of what ran out of memory a source may say what it would have taken.
std::optional<Contradiction> peak_above_memory(const MeasuredRow& row) {
  const auto peak = row.number("peak_mem_gib");
  double most = row.number("gpu_mem_gb").value_or(0);
  for (const DeviceSpec& device : devices_of(row)) most = std::max(most, gib(device.memory_stated));
  if (!peak || most == 0 || row.outcome() == RowOutcome::oom) return std::nullopt;
  if (*peak <= most * kBetweenUnits) return std::nullopt;
  return Contradiction{"peak_mem_gib", fmt::format("is more than the device has, {:g}", most)};
}

/// `column` counts some of what `whole` counts.
std::optional<Contradiction> part_above_whole(const MeasuredRow& row, std::string_view column,
                                              std::string_view whole) {
  const auto some = row.count(column), all = row.count(whole);
  if (!some || !all || *some <= *all) return std::nullopt;
  return Contradiction{column, fmt::format("is more than {} {}", whole, *all)};
}

}  // namespace

std::optional<Contradiction> contradiction(const MeasuredRow& row) {
  if (auto found = wrong_memory(row)) return found;
  if (auto found = peak_above_memory(row)) return found;
  if (auto found = part_above_whole(row, "kv_heads", "heads")) return found;
  return part_above_whole(row, "topk", "experts");
}

}  // namespace planwright::cli
