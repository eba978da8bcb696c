#include "estimator/devices.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/print_table.h"
#include "cli/verbs.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "devices",
    .summary = "The accelerators that are known by name, with the numbers used for them.",
    .arguments = "",
    .example = "planwright devices --json",
};

constexpr double kTera = 1e12;

std::string tera_text(const std::optional<FlopsPerSecond>& rate) {
  return rate ? fmt::format("{:.0f}", rate->value / kTera) : "-";
}

std::string table(const std::vector<DeviceSpec>& devices, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const DeviceSpec& device : devices) {
    rows.push_back({device.name, gib_text(device.memory),
                    fmt::format("{:.0f}", device.memory_bandwidth.value / 1e9),
                    tera_text(device.fp32), tera_text(device.bf16), tera_text(device.fp8)});
  }
  return table_text({{"device", Align::left},
                     {"usable GiB", Align::right},
                     {"GB/s", Align::right},
                     {"fp32 TF/s", Align::right},
                     {"bf16 TF/s", Align::right},
                     {"fp8 TF/s", Align::right}},
                    rows, paint);
}

Json optional_json(const std::optional<FlopsPerSecond>& rate) {
  return rate ? Json(rate->value) : Json();
}

Json row(const DeviceSpec& device) {
  return {{"name", device.name},
          {"kind", word(device.kind)},
          {"memory_bytes", device.memory.value},
          {"memory_stated_bytes", device.memory_stated.value},
          {"memory_bandwidth_bytes_per_s", device.memory_bandwidth.value},
          {"fp64_flops_per_s", optional_json(device.fp64)},
          {"fp32_flops_per_s", optional_json(device.fp32)},
          {"tf32_flops_per_s", optional_json(device.tf32)},
          {"bf16_flops_per_s", optional_json(device.bf16)},
          {"fp16_flops_per_s", optional_json(device.fp16)},
          {"fp8_flops_per_s", optional_json(device.fp8)},
          {"source", device.source}};
}

}  // namespace

int run_devices(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const auto& devices = estimator::device_presets();
  console.print(table(devices, console.result_paint()));
  Json json{{"schema", "planwright.devices/1"}, {"rows", Json::array()}};
  for (const DeviceSpec& device : devices) json["rows"].push_back(row(device));
  console.print_json(json);
  return kExitDone;
}

}  // namespace planwright::cli
