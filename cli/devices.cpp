#include "estimator/devices.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/print_table.h"
#include "cli/verbs.h"
#include "estimator/clusters.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "devices",
    .summary =
        "The accelerators, CPU sockets and nodes that are known by name, with the numbers used for "
        "them: dense peaks in 10^12 per second.",
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
    if (device.kind == DeviceKind::cpu) continue;
    rows.push_back({device.name, gib_text(device.memory),
                    fmt::format("{:.0f}", device.memory_bandwidth.value / 1e9),
                    tera_text(device.fp32), tera_text(device.tf32), tera_text(device.bf16),
                    tera_text(device.fp8), tera_text(device.int8), tera_text(device.fp4)});
  }
  return table_text({{"device", Align::left},
                     {"usable GiB", Align::right},
                     {"GB/s", Align::right},
                     {"fp32 TF/s", Align::right},
                     {"tf32", Align::right},
                     {"bf16", Align::right},
                     {"fp8", Align::right},
                     {"int8", Align::right},
                     {"fp4", Align::right}},
                    rows, paint);
}

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : "-";
}

std::string sockets_table(const std::vector<DeviceSpec>& devices, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const DeviceSpec& device : devices) {
    if (device.kind != DeviceKind::cpu) continue;
    rows.push_back(
        {device.name, number_text(estimator::device_facts(device).cores),
         device.memory_stated.value > 0 ? fmt::format("{:.0f}", gib(device.memory_stated)) : "-",
         fmt::format("{:.0f}", device.memory_bandwidth.value / 1e9),
         fmt::format("{:.1f}", device.fp32 ? device.fp32->value / kTera : 0),
         tera_text(device.bf16), tera_text(device.int8)});
  }
  return table_text({{"CPU socket", Align::left},
                     {"cores", Align::right},
                     {"most GiB", Align::right},
                     {"GB/s", Align::right},
                     {"fp32 TF/s", Align::right},
                     {"bf16", Align::right},
                     {"int8", Align::right}},
                    rows, paint);
}

std::string nodes_table(const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const estimator::ClusterShape& shape : estimator::cluster_shapes()) {
    rows.push_back({shape.name, shape.provider,
                    fmt::format("{} x {}", shape.per_node, shape.device),
                    fmt::format("{} x {}", number_text(shape.nics), number_text(shape.nic_gbit)),
                    shape.network, number_text(shape.host_memory_gib)});
  }
  return table_text({{"node", Align::left},
                     {"provider", Align::left},
                     {"devices", Align::left},
                     {"NICs x Gbit/s", Align::right},
                     {"network", Align::left},
                     {"host GiB", Align::right}},
                    rows, paint);
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json node_row(const estimator::ClusterShape& shape) {
  return {
      {"name", shape.name},
      {"provider", shape.provider},
      {"device", shape.device},
      {"per_node", shape.per_node},
      {"nics", optional_json(shape.nics)},
      {"nic_bits_per_s", shape.nic_gbit ? Json(*shape.nic_gbit * 1e9) : Json()},
      {"network", shape.network},
      {"host_memory_bytes", shape.host_memory_gib ? Json(*shape.host_memory_gib * 0x1p30) : Json()},
      {"vcpus", optional_json(shape.vcpus)},
      {"pcie_generation", optional_json(shape.pcie_generation)},
      {"source", shape.source}};
}

Json optional_json(const std::optional<FlopsPerSecond>& rate) {
  return rate ? Json(rate->value) : Json();
}

/// Null where nobody knows.
Json bytes_json(Bytes bytes) { return bytes.value > 0 ? Json(bytes.value) : Json(); }

Json row(const DeviceSpec& device) {
  const estimator::DeviceFacts facts = estimator::device_facts(device);
  return {{"name", device.name},
          {"kind", word(device.kind)},
          {"vendor", facts.vendor},
          {"architecture", facts.architecture},
          {"compute_capability", facts.compute_capability},
          {"cores", optional_json(facts.cores)},
          {"nvlink_bytes_per_s", facts.nvlink ? Json(facts.nvlink->value) : Json()},
          {"pcie_generation", optional_json(facts.pcie_generation)},
          {"pcie_lanes", optional_json(facts.pcie_lanes)},
          {"memory_bytes", bytes_json(device.memory)},
          {"memory_stated_bytes", bytes_json(device.memory_stated)},
          {"memory_bandwidth_bytes_per_s", device.memory_bandwidth.value},
          {"fp64_flops_per_s", optional_json(device.fp64)},
          {"fp32_flops_per_s", optional_json(device.fp32)},
          {"tf32_flops_per_s", optional_json(device.tf32)},
          {"bf16_flops_per_s", optional_json(device.bf16)},
          {"fp16_flops_per_s", optional_json(device.fp16)},
          {"fp8_flops_per_s", optional_json(device.fp8)},
          {"int8_ops_per_s", optional_json(device.int8)},
          {"fp4_flops_per_s", optional_json(device.fp4)},
          {"source", device.source}};
}

}  // namespace

int run_devices(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const auto& devices = estimator::device_presets();
  console.print(table(devices, console.result_paint()));
  console.print("\n" + sockets_table(devices, console.result_paint()));
  console.print("\n" + nodes_table(console.result_paint()));
  Json json{{"schema", "planwright.devices/1"}, {"rows", Json::array()}, {"nodes", Json::array()}};
  for (const DeviceSpec& device : devices) json["rows"].push_back(row(device));
  for (const auto& shape : estimator::cluster_shapes()) json["nodes"].push_back(node_row(shape));
  console.print_json(json);
  return kExitDone;
}

}  // namespace planwright::cli
