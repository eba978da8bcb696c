#include "estimator/devices.h"

#include <gtest/gtest.h>

#include <set>

#include "estimator/clusters.h"
#include "estimator/csv.h"
#include "estimator/embedded.h"
#include "estimator/spec/error.h"
#include "tests/support/fault.h"

namespace planwright::estimator {
namespace {

DeviceSpec find(std::string_view name) { return find_device(name, "command line", "--device"); }

InputFault fault_of(std::string_view name) {
  try {
    find(name);
  } catch (const InputError& error) {
    return error.fault();
  }
  ADD_FAILURE() << name << " was found";
  return {};
}

TEST(DevicePresets, HaveDistinctNamesMemoryAndASource) {
  std::set<std::string> names;
  for (const DeviceSpec& device : device_presets()) {
    EXPECT_TRUE(names.insert(device.name).second) << device.name;
    const Bytes least{device.kind == DeviceKind::cuda ? 1 << 30 : 0};
    EXPECT_GE(device.memory, least) << device.name;
    EXPECT_LE(device.memory, device.memory_stated) << device.name;
    EXPECT_FALSE(device.source.empty()) << device.name;
  }
  EXPECT_GE(names.size(), 120u);
}

/// A socket's peak is what its cores do per cycle at the clock that it keeps.
TEST(DevicePresets, SocketsPeaksFollowFromTheirCores) {
  const Csv table(embedded_text("cpus.csv"), "cpus.csv");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& name = table.cell(row, "name");
    const DeviceSpec socket = find(name);
    EXPECT_EQ(socket.kind, DeviceKind::cpu) << name;
    EXPECT_EQ(socket.memory, Bytes{0}) << name << ": nobody knows what was put in";
    const double product = table.number(row, "cores", 0) * table.number(row, "base_ghz", 0) *
                           table.number(row, "flops_per_cycle", 0) * 1e9;
    EXPECT_NEAR(socket.fp32.value().value, product, 0.006e12) << name;
    EXPECT_GT(socket.memory_bandwidth, BytesPerSecond{40e9}) << name;
    EXPECT_EQ(device_facts(socket).cores, table.number(row, "cores", 0)) << name;
    const auto channels = table.number_if_known(row, "memory_channels");
    if (!channels) continue;
    EXPECT_NEAR(socket.memory_bandwidth.value, *channels * table.number(row, "memory_mts", 0) * 8e6,
                0.06e9)
        << name;
  }
}

TEST(DevicePresets, CarryTheDataSheet) {  // UR-049: dense peaks
  const DeviceSpec a100 = find("A100-SXM4-80GB");
  EXPECT_EQ(a100.bf16, FlopsPerSecond{312e12});
  EXPECT_EQ(a100.memory_bandwidth, BytesPerSecond{2039e9});
  EXPECT_NEAR(gib(a100.memory), 79.15, 1e-6);
  EXPECT_FALSE(a100.fp8.has_value());  // not there, never 0
}

TEST(DevicePresets, WithoutAMeasuredUsableMemoryHoldBackTheLargestShareOfAnyThatHasOne) {
  // A10: 24 GB stated; the A10G of the same size has 22.06 of 24 usable, the smallest share.
  EXPECT_LE(gib(find("A10").memory), 22.06 + 1e-6);
  EXPECT_GT(gib(find("A10").memory), 20);
}

struct NameCase {
  const char* given;
  const char* found;
};

TEST(FindDevice, TakesAliasesSpellingsAndVendorsNames) {
  const NameCase cases[] = {
      {"A100-80GB", "A100-SXM4-80GB"},
      {"a100 80gb", "A100-SXM4-80GB"},
      {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"},
      {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"},
      {"nvidia-h200", "H200-SXM-141GB"},
      {"NVIDIA GeForce RTX 4090", "RTX 4090"},
      {"Tesla T4", "T4"},
      {"AMD Instinct MI300X", "MI300X"},
      {"Instinct MI300X", "MI300X"},
      {"M5 Max", "Apple M5 Max"},
  };
  for (const NameCase& each : cases) EXPECT_EQ(find(each.given).name, each.found) << each.given;
}

TEST(FindDevice, NamesTheNearestForAnUnknownOne) {  // UR-047
  const InputFault fault = fault_of("A100-SXM4-80GX");
  EXPECT_EQ(fault.file, "command line");
  EXPECT_EQ(fault.key, "--device");
  EXPECT_EQ(fault.value, "A100-SXM4-80GX");
  EXPECT_EQ(fault.nearest, "A100-SXM4-80GB");
  EXPECT_EQ(fault_of("A100-SXM4-80gx").nearest, "A100-SXM4-80GB");
  EXPECT_TRUE(fault_of("H1000").nearest.starts_with("H100-")) << "H100 alone would be refused";
}

TEST(FindDevice, ListsWhatAnAmbiguousNameCouldMean) {
  const InputFault fault = fault_of("A100");
  EXPECT_NE(fault.rule.find("A100-PCIE-40GB"), std::string::npos) << fault.rule;
  EXPECT_NE(fault.rule.find("A100-SXM4-80GB"), std::string::npos) << fault.rule;
}

TEST(FindDevice, EveryAliasNamesAPreset) {
  const Csv aliases(embedded_text("device_aliases.csv"), "device_aliases.csv");
  for (std::size_t row = 0; row < aliases.rows(); ++row) {
    EXPECT_EQ(find(aliases.cell(row, "name")).name, aliases.cell(row, "name"));
  }
}

/// The `gpu` column of published measurements (reference/measured of the project's collection),
/// and what each spelling means; several are separated by |.
TEST(FindDevice, EverySpellingOfThePublishedMeasurementsIsKnown) {
  const Csv spellings(testing::file_text(PLANWRIGHT_SOURCE_DIR "/tests/data/gpu_spellings.csv"),
                      "gpu_spellings.csv");
  EXPECT_GE(spellings.rows(), 150u);
  for (std::size_t row = 0; row < spellings.rows(); ++row) {
    const std::string spelling = spellings.cell(row, "spelling");
    const std::string means = spellings.cell(row, "means");
    if (means.find('|') == std::string::npos) {
      EXPECT_EQ(find(spelling).name, means) << spelling;
    } else {
      const InputFault fault = fault_of(spelling);
      EXPECT_NE(fault.rule.find("say which by memory and form"), std::string::npos) << spelling;
      EXPECT_NE(fault.rule.find(means.substr(0, means.find('|'))), std::string::npos) << spelling;
    }
  }
}

TEST(ClusterShapes, AreOfKnownDevicesWithSources) {
  EXPECT_GE(cluster_shapes().size(), 30u);
  for (const ClusterShape& shape : cluster_shapes()) {
    EXPECT_EQ(find(shape.device).name, shape.device) << shape.name;
    EXPECT_FALSE(shape.source.empty()) << shape.name;
    const ClusterSpec two = shape_cluster(shape, 2 * shape.per_node);
    EXPECT_EQ(two.nodes, 2) << shape.name;
    EXPECT_EQ(two.links.back().span, 2 * shape.per_node) << shape.name;
  }
}

TEST(ClusterShapes, ShareTheNodesNetworkAmongItsDevices) {
  const ClusterShape* p5 = find_cluster_shape("P5.48xlarge");
  ASSERT_NE(p5, nullptr);
  const ClusterSpec cluster = shape_cluster(*p5, 16);
  EXPECT_DOUBLE_EQ(cluster.links.back().bandwidth.value, 3200e9 / 8 / 8);
  EXPECT_EQ(cluster.host_memory, Bytes{std::int64_t{2048} << 30});
  EXPECT_EQ(find_cluster_shape("p6.48xlarge"), nullptr);
}

TEST(PresetCluster, UsesNvlinkInsideANodeAndTheNetworkBetweenNodes) {
  const ClusterSpec cluster = preset_cluster(find("A100-80GB"), 16, 8);
  EXPECT_EQ(cluster.per_node, 8);
  EXPECT_EQ(cluster.nodes, 2);
  ASSERT_EQ(cluster.links.size(), 2u);
  EXPECT_EQ(cluster.links[0].name, "nvlink");
  EXPECT_EQ(cluster.links[0].bandwidth, BytesPerSecond{300e9});
  EXPECT_EQ(cluster.links[0].span, 8);
  EXPECT_EQ(cluster.links[1].name, "InfiniBand HDR");
  EXPECT_EQ(cluster.links[1].bandwidth, BytesPerSecond{25e9});
  EXPECT_EQ(cluster.links[1].span, 16);
  EXPECT_EQ(cluster.pcie, BytesPerSecond{24e9});  // generation 4, sixteen lanes
}

/// By its maker's own node, by the middle of those that have it, or by the default network. In
/// Gbit/s of each device.
TEST(PresetCluster, TakesTheNetworkOfTheDevicesUsualNode) {
  const auto usual = [](const char* device) {
    const ClusterShape* node = usual_node(find(device));
    return node == nullptr ? "" : node->name;
  };
  const auto network = [](const char* device) {
    return preset_cluster(find(device), 16, 8).links.back().bandwidth.value * 8 / 1e9;
  };
  EXPECT_EQ(usual("H100-SXM5-80GB"), "DGX H100");
  EXPECT_DOUBLE_EQ(network("H100-SXM5-80GB"), 400);
  EXPECT_EQ(usual("L40S"), "g6e.48xlarge");
  EXPECT_DOUBLE_EQ(network("L40S"), 50);
  EXPECT_EQ(usual("RTX-4090"), "");
  EXPECT_DOUBLE_EQ(network("RTX-4090"), 188);
}

TEST(PresetCluster, SaysWhereItsLinksAreFrom) {
  using Sources = std::vector<std::string>;
  EXPECT_EQ(preset_link_sources(find("H100-SXM5-80GB"), 8, 8), Sources{"estimator/data/gpus.csv"});
  EXPECT_EQ(
      preset_link_sources(find("H100-SXM5-80GB"), 16, 8),
      (Sources{"estimator/data/gpus.csv", "taken as in DGX H100, estimator/data/clusters.csv"}));
  EXPECT_EQ(preset_link_sources(find("RTX-4090"), 16, 8),
            (Sources{"estimator/data/links.csv", "taken as anywhere, estimator/data/links.csv"}));
  EXPECT_EQ(shape_link_sources(*find_cluster_shape("p4d.24xlarge"), 16).back(),
            "what p4d.24xlarge has, estimator/data/clusters.csv");
}

TEST(PresetCluster, WithoutNvlinkGoesOverPcie) {
  const ClusterSpec cluster = preset_cluster(find("L40S"), 4, 8);
  ASSERT_EQ(cluster.links.size(), 1u);
  EXPECT_EQ(cluster.per_node, 4);
  EXPECT_EQ(cluster.links[0].name, "pcie");
  EXPECT_EQ(cluster.links[0].bandwidth, BytesPerSecond{24e9});
}

/// NVIDIA's data sheets: NVLink bridges of A100 and H100 PCIe join two cards.
TEST(PresetCluster, ABridgeJoinsTwoCardsAndPcieTheRest) {
  const ClusterSpec cluster = preset_cluster(find("A100-PCIE-80GB"), 16, 8);
  ASSERT_EQ(cluster.links.size(), 3u);
  EXPECT_EQ(cluster.links[0].name, "nvlink");
  EXPECT_EQ(cluster.links[0].span, 2);
  EXPECT_EQ(cluster.links[1].name, "pcie");
  EXPECT_EQ(cluster.links[1].bandwidth, BytesPerSecond{24e9});
  EXPECT_EQ(cluster.links[1].span, 8);
  EXPECT_EQ(preset_link_sources(find("A100-PCIE-80GB"), 16, 8).size(), 3u);
  const ClusterSpec pair = preset_cluster(find("A100-PCIE-80GB"), 2, 8);
  ASSERT_EQ(pair.links.size(), 1u);
  EXPECT_EQ(pair.links[0].name, "nvlink");
  const ClusterSpec three = preset_cluster(find("RTX-3090"), 3, 3);
  ASSERT_EQ(three.links.size(), 1u);
  EXPECT_EQ(three.links[0].name, "pcie");
  EXPECT_EQ(preset_link_sources(find("RTX-3090"), 3, 3),
            std::vector<std::string>{"estimator/data/links.csv"});
}

TEST(PresetCluster, OfCpusTalksOverTheLoopback) {
  DeviceSpec cpu;
  cpu.name = "cpu";
  const ClusterSpec cluster = preset_cluster(cpu, 2, 2);
  ASSERT_EQ(cluster.links.size(), 1u);
  EXPECT_EQ(cluster.links[0].name, "loopback");
  EXPECT_GT(cluster.links[0].bandwidth, BytesPerSecond{});
  EXPECT_FALSE(cluster.pcie.has_value());
}

TEST(PresetCluster, RefusesNodesThatDoNotComeOutWhole) {
  try {
    preset_cluster(find("A100-80GB"), 12, 8);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.fault().key, "--per-node");
    EXPECT_EQ(error.fault().nearest, "6");
  }
  EXPECT_THROW(preset_cluster(find("T4"), 0, 1), InputError);
  EXPECT_THROW(preset_cluster(find("T4"), 1, 0), InputError);
}

TEST(Csv, ReadsQuotedCellsAndEmptyNumbers) {
  const Csv table("a,b\n\"x, \"\"y\"\"\",\nz,2.5\n", "test.csv");
  ASSERT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.cell(0, "a"), "x, \"y\"");
  EXPECT_EQ(table.number(0, "b", 7), 7);
  EXPECT_EQ(table.number(1, "b", 7), 2.5);
}

TEST(Csv, RefusesRaggedRowsUnknownColumnsAndWordsForNumbers) {
  EXPECT_THROW(Csv("a,b\n1\n", "test.csv"), std::logic_error);
  const Csv table("a\nword\n", "test.csv");
  EXPECT_THROW(table.cell(0, "c"), std::logic_error);
  EXPECT_THROW(table.number(0, "a", 0), std::logic_error);
}

TEST(Embedded, HoldsTheTablesAndRefusesOthers) {
  for (const char* name : {"gpus.csv", "links.csv", "priors.csv", "device_aliases.csv"}) {
    EXPECT_FALSE(embedded_text(name).empty()) << name;
  }
  EXPECT_THROW(embedded_text("secrets.csv"), std::logic_error);
}

using Names = std::vector<std::string>;

TEST(Devices, KnowWhatElseAShortNameMayMean) {
  const DeviceSpec a100 = find("A100-80GB");
  EXPECT_FALSE(is_own_name(a100, "A100-80GB"));
  EXPECT_TRUE(is_own_name(a100, "nvidia a100 sxm4 80gb"));
  EXPECT_EQ(forms_beside(a100, "A100-80GB"), Names{"A100-PCIE-80GB"});
  EXPECT_EQ(forms_beside(find("H100-80GB"), "H100-80GB"), Names{"H100-PCIE-80GB"});
  EXPECT_EQ(forms_beside(find("4090"), "4090"), Names{}) << "one card";
}

}  // namespace
}  // namespace planwright::estimator
