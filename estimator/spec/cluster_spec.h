#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/units.h"
#include "estimator/spec/words.h"

namespace planwright {

enum class DeviceKind { cpu, cuda };
template <>
struct Words<DeviceKind> {
  static constexpr std::array<std::string_view, 2> kWords{"cpu", "cuda"};
};

/// What one device can do, by its data sheet. Absent: not known or not there, never 0.
struct DeviceSpec {
  std::string name;
  DeviceKind kind = DeviceKind::cpu;
  Bytes memory;         ///< usable by the allocator and what lives beside it
  Bytes memory_stated;  ///< what the box says
  std::optional<FlopsPerSecond> fp64, fp32, tf32, bf16, fp16, fp8, int8{},
      fp4{};  ///< dense matrix peaks
  BytesPerSecond memory_bandwidth;
  std::string source;

  bool operator==(const DeviceSpec&) const = default;
};

/// One level of the interconnect: any group of at most `span` neighbouring devices talks over it.
struct Link {
  std::string name;
  BytesPerSecond bandwidth;  ///< per device, one direction
  Seconds latency;           ///< per message hop
  int span = 1;              ///< devices
  bool operator==(const Link&) const = default;
};

struct ClusterSpec {
  DeviceSpec device;
  int per_node = 1;
  int nodes = 1;
  std::vector<Link> links;  ///< innermost first; the last spans every device
  std::optional<Bytes> host_memory;
  std::optional<BytesPerSecond> pcie;  ///< host to device, per device, one direction
  std::optional<double> price_per_device_hour;
  int threads_per_rank = 1;  ///< CPU devices only

  bool operator==(const ClusterSpec&) const = default;
  int devices() const { return per_node * nodes; }
};

}  // namespace planwright
