#include "estimator/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "estimator/clusters.h"
#include "estimator/csv.h"
#include "estimator/embedded.h"
#include "estimator/spec/error.h"
#include "estimator/spec/words.h"

namespace planwright::estimator {
namespace {

const Csv& device_table() {
  static const Csv kTable(embedded_text("gpus.csv"), "gpus.csv");
  return kTable;
}

const Csv& cpu_table() {
  static const Csv kTable(embedded_text("cpus.csv"), "cpus.csv");
  return kTable;
}

const Csv& alias_table() {
  static const Csv kTable(embedded_text("device_aliases.csv"), "device_aliases.csv");
  return kTable;
}

const Csv& link_table() {
  static const Csv kTable(embedded_text("links.csv"), "links.csv");
  return kTable;
}

std::optional<FlopsPerSecond> tera(const Csv& table, std::size_t row, const char* column) {
  const double value = table.number(row, column, 0);
  return value > 0 ? std::optional(FlopsPerSecond{value * 1e12}) : std::nullopt;
}

double smallest_usable_share() {
  const Csv& table = device_table();
  double share = 1;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double stated = table.number(row, "mem_gb", 0);
    share = std::min(share, table.number(row, "mem_gib_usable", stated) / stated);
  }
  return share;
}

DeviceSpec read_device(std::size_t row, double usable_share) {
  const Csv& table = device_table();
  const double stated = table.number(row, "mem_gb", 0);
  const double usable = table.number(row, "mem_gib_usable", stated * usable_share);
  DeviceSpec device;
  device.name = table.cell(row, "name");
  device.kind = DeviceKind::cuda;
  device.memory = Bytes{std::llround(usable * kGiB)};
  device.memory_stated = Bytes{std::llround(stated * kGiB)};
  device.fp32 = tera(table, row, "fp32_tflops");
  device.tf32 = tera(table, row, "tf32_tflops");
  device.bf16 = tera(table, row, "bf16_tflops");
  device.fp16 = tera(table, row, "fp16_tflops");
  device.fp8 = tera(table, row, "fp8_tflops");
  device.int8 = tera(table, row, "int8_tops");
  device.fp4 = tera(table, row, "fp4_tflops");
  device.memory_bandwidth = BytesPerSecond{table.number(row, "hbm_gbs", 0) * 1e9};
  device.source = table.cell(row, "source");
  return device;
}

/// One socket. Its memory is what the owner has put in, so only the most is known.
DeviceSpec read_cpu(std::size_t row) {
  const Csv& table = cpu_table();
  DeviceSpec device;
  device.name = table.cell(row, "name");
  device.kind = DeviceKind::cpu;
  device.memory_stated = Bytes{std::llround(table.number(row, "max_memory_gb", 0) * kGiB)};
  device.fp32 = tera(table, row, "fp32_tflops");
  device.bf16 = tera(table, row, "bf16_tflops");
  device.int8 = tera(table, row, "int8_tops");
  device.memory_bandwidth = BytesPerSecond{table.number(row, "memory_gbs", 0) * 1e9};
  device.source = table.cell(row, "source");
  return device;
}

/// Lower-case letters and digits only, a leading vendor's name left out.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) text += static_cast<char>(std::tolower(byte));
  }
  for (const std::string_view vendor :
       {"nvidia", "amdinstinct", "instinct", "amd", "intel", "apple"}) {
    if (text.starts_with(vendor) && text.size() > vendor.size()) return text.substr(vendor.size());
  }
  return text;
}

const DeviceSpec* preset(std::string_view name) {
  const auto& presets = device_presets();
  const auto found = std::find_if(presets.begin(), presets.end(), [&](const DeviceSpec& device) {
    return plain(device.name) == plain(name);
  });
  return found == presets.end() ? nullptr : &*found;
}

std::vector<std::string> aliased(std::string_view name) {
  const Csv& table = alias_table();
  std::vector<std::string> names;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (plain(table.cell(row, "alias")) == plain(name)) names.push_back(table.cell(row, "name"));
  }
  return names;
}

/// The name, of a preset or an alias, that is spelled most like this one; empty if none is. An
/// alias of several devices stands for its first, since it would be refused itself.
std::string nearest_device(std::string_view name) {
  std::vector<std::string> plain_names;
  std::vector<std::string> names;
  const auto offer = [&](const std::string& each) {
    plain_names.push_back(plain(each));
    names.push_back(each);
  };
  for (const DeviceSpec& device : device_presets()) offer(device.name);
  for (std::size_t row = 0; row < alias_table().rows(); ++row) {
    offer(alias_table().cell(row, "alias"));
  }
  const std::string best = nearest_word(plain(name), plain_names);
  const auto at = std::find(plain_names.begin(), plain_names.end(), best) - plain_names.begin();
  if (best.empty()) return "";
  const std::string& name_found = names.at(static_cast<std::size_t>(at));
  const auto meant = aliased(name_found);
  return preset(name_found) == nullptr && meant.size() > 1 ? meant.front() : name_found;
}

/// "H100-80GB": h100, 80gb.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words{""};
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      words.back() += static_cast<char>(std::tolower(byte));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

Link read_link(std::size_t row, int span) {
  const Csv& table = link_table();
  return {table.cell(row, "name"), BytesPerSecond{table.number(row, "gbs", 0) * 1e9},
          Seconds{table.number(row, "latency_us", 0) * 1e-6}, span};
}

/// The row of links.csv with this name; `generation` 0: whatever it says.
Link link_named(std::string_view name, double generation, int span) {
  const Csv& table = link_table();
  std::size_t row = 0;
  while (table.cell(row, "name") != name ||
         (generation > 0 && table.number(row, "pcie_gen", 0) != generation)) {
    ++row;
  }
  return read_link(row, span);
}

/// PCIe lanes of a device against the sixteen of the link table.
Link pcie_link(double generation, double lanes, int span) {
  Link link = link_named("pcie", generation, span);
  link.bandwidth = link.bandwidth * (lanes / 16);
  return link;
}

/// Where a preset stands in the tables, accelerators first.
std::optional<std::size_t> preset_number(const DeviceSpec& device) {
  const DeviceSpec* found = preset(device.name);
  if (found == nullptr) return std::nullopt;
  return static_cast<std::size_t>(found - device_presets().data());
}

std::optional<std::size_t> accelerator_row(const DeviceSpec& device) {
  const auto number = preset_number(device);
  return number && *number < device_table().rows() ? number : std::nullopt;
}

DeviceFacts cpu_facts(std::size_t row) {
  const Csv& table = cpu_table();
  return {.vendor = table.cell(row, "vendor"),
          .architecture = table.cell(row, "arch"),
          .cores = table.number_if_known(row, "cores"),
          .pcie_generation = table.number_if_known(row, "pcie_gen"),
          .pcie_lanes = table.number_if_known(row, "pcie_lanes")};
}

bool has_nvlink(const DeviceSpec& device) {
  return device_facts(device).nvlink.value_or(BytesPerSecond{}).value > 0;
}

/// Devices of a node that NVLink or its like joins: a bridge between cards, of which there are some
/// for two and for four, is not a node's switch, and joins none where its groups do not divide it.
int nvlink_span(const DeviceSpec& device, int per_node) {
  if (!has_nvlink(device)) return 1;
  const double most = device_table().number(*accelerator_row(device), "nvlink_span", per_node);
  const int span = std::min(static_cast<int>(most), per_node);
  return per_node % span == 0 ? span : 1;
}

Link pcie_of(const DeviceSpec& device, int span) {
  const auto row = accelerator_row(device);
  if (!row) return link_named("pcie", 0, span);
  return pcie_link(device_table().number(*row, "pcie_gen", 0),
                   device_table().number(*row, "pcie_lanes", 16), span);
}

/// What joins devices of one node, innermost first.
std::vector<Link> node_links(const DeviceSpec& device, int per_node) {
  if (device.kind == DeviceKind::cpu) return {link_named("loopback", 0, per_node)};
  std::vector<Link> links;
  const int span = nvlink_span(device, per_node);
  if (has_nvlink(device) && (span > 1 || per_node == 1)) {
    links.push_back(link_named("nvlink", 0, span));
    links.back().bandwidth = *device_facts(device).nvlink;
  }
  if (links.empty() || span < per_node) links.push_back(pcie_of(device, per_node));
  return links;
}

/// What joins nodes.
Link network_link(const DeviceSpec& device, int span) {
  Link link = link_named("network", 0, span);
  if (const ClusterShape* usual = usual_node(device)) {
    link.name = usual->network;
    link.bandwidth = usual->device_network();
  }
  return link;
}

}  // namespace

DeviceFacts device_facts(const DeviceSpec& device) {
  const auto number = preset_number(device);
  if (!number) return {};
  const Csv& table = device_table();
  if (*number >= table.rows()) return cpu_facts(*number - table.rows());
  DeviceFacts facts{.vendor = table.cell(*number, "vendor"),
                    .architecture = table.cell(*number, "arch"),
                    .compute_capability = table.cell(*number, "cuda_cc"),
                    .pcie_generation = table.number_if_known(*number, "pcie_gen"),
                    .pcie_lanes = table.number_if_known(*number, "pcie_lanes")};
  if (const auto gigabytes = table.number_if_known(*number, "nvlink_gbs_unidir")) {
    facts.nvlink = BytesPerSecond{*gigabytes * 1e9};
  }
  return facts;
}

double compute_capability(const DeviceSpec& device) {
  const std::string text = device_facts(device).compute_capability;
  return text.empty() ? 0 : std::stod(text);
}

std::optional<FlopsPerSecond> stated_peak(const DeviceSpec& device, DType type) {
  switch (type) {
    case DType::fp64:
      return device.fp64;
    case DType::fp32:
      return device.fp32;
    case DType::bf16:
      return device.bf16;
    case DType::fp16:
      return device.fp16;
    case DType::fp8:
      return device.fp8;
  }
  return std::nullopt;
}

BytesPerSecond pcie_bandwidth(double generation, double lanes) {
  return pcie_link(generation, lanes, 1).bandwidth;
}

const std::vector<DeviceSpec>& device_presets() {
  static const std::vector<DeviceSpec> kPresets = [] {
    std::vector<DeviceSpec> presets;
    const double share = smallest_usable_share();
    for (std::size_t row = 0; row < device_table().rows(); ++row) {
      presets.push_back(read_device(row, share));
    }
    for (std::size_t row = 0; row < cpu_table().rows(); ++row) presets.push_back(read_cpu(row));
    return presets;
  }();
  return kPresets;
}

std::vector<std::string> devices_named(std::string_view name) {
  if (const DeviceSpec* found = preset(name)) return {found->name};
  return aliased(name);
}

bool is_own_name(const DeviceSpec& device, std::string_view name) {
  return plain(device.name) == plain(name);
}

std::vector<std::string> forms_beside(const DeviceSpec& device, std::string_view name) {
  const std::vector<std::string> wanted = words_of(name);
  const auto is_form = [&](const std::string& other) {
    const std::vector<std::string> words = words_of(other);
    return other != device.name &&
           std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
             return std::find(words.begin(), words.end(), word) != words.end();
           });
  };
  const Csv& table = alias_table();
  std::set<std::string> forms;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto meant = aliased(table.cell(row, "alias"));
    if (std::find(meant.begin(), meant.end(), device.name) == meant.end()) continue;
    std::copy_if(meant.begin(), meant.end(), std::inserter(forms, forms.end()), is_form);
  }
  return {forms.begin(), forms.end()};
}

DeviceSpec find_device(std::string_view name, const std::string& file, const std::string& key) {
  const auto names = devices_named(name);
  if (names.size() == 1) return *preset(names.front());
  if (names.size() > 1) {
    throw InputError(
        {file, key, std::string(name),
         "names more than one device, say which by memory and form: " + join_words(names), ""});
  }
  throw InputError({file, key, std::string(name), "is not a device that `planwright devices` lists",
                    nearest_device(name)});
}

ClusterSpec preset_cluster(const DeviceSpec& device, int devices, int per_node) {
  if (devices < 1) {
    throw InputError(
        {"command line", "--devices", std::to_string(devices), "must be at least 1", "1"});
  }
  if (per_node < 1) {
    throw InputError(
        {"command line", "--per-node", std::to_string(per_node), "must be at least 1", "1"});
  }
  per_node = std::min(per_node, devices);
  if (devices % per_node != 0) {
    int nearest = per_node;
    while (devices % nearest != 0) --nearest;
    throw InputError({"command line", "--per-node", std::to_string(per_node),
                      "must divide the " + std::to_string(devices) + " devices into whole nodes",
                      std::to_string(nearest)});
  }
  ClusterSpec cluster;
  cluster.device = device;
  cluster.per_node = per_node;
  cluster.nodes = devices / per_node;
  cluster.links = node_links(device, per_node);
  if (cluster.nodes > 1) cluster.links.push_back(network_link(device, devices));
  const auto row = accelerator_row(device);
  const double generation = row ? device_table().number(*row, "pcie_gen", 0) : 0;
  if (generation > 0) {
    cluster.pcie =
        pcie_link(generation, device_table().number(*row, "pcie_lanes", 16), 1).bandwidth;
  }
  return cluster;
}

std::vector<std::string> preset_link_sources(const DeviceSpec& device, int devices, int per_node) {
  std::vector<std::string> sources;
  for (const Link& link : node_links(device, std::min(per_node, devices))) {
    sources.push_back(
        fmt::format("estimator/data/{}.csv", link.name == "nvlink" ? "gpus" : "links"));
  }
  if (devices <= per_node) return sources;
  const ClusterShape* usual = usual_node(device);
  sources.push_back(usual != nullptr
                        ? fmt::format("taken as in {}, estimator/data/clusters.csv", usual->name)
                        : "taken as anywhere, estimator/data/links.csv");
  return sources;
}

}  // namespace planwright::estimator
