#include "cli/print_links.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/units.h"
#include "estimator/spec/words.h"

namespace planwright::cli {

std::vector<std::string> assumptions(const ProblemInput& input, const Offload& offload) {
  std::vector<std::string> all = input.assumed;
  if (offload == Offload{}) return all;
  const auto& memory = input.problem.cluster.host_memory;
  if (!memory) {
    all.emplace_back("hosts have the memory that a plan needs; --cluster says what they have");
  } else if (!input.host_from.empty()) {
    all.push_back(fmt::format("host memory of a node {:.0f} GiB, {}; --cluster says otherwise",
                              gib(*memory), input.host_from));
  }
  if (offload.to == OffloadTo::nvme) {
    all.emplace_back("a disk as fast as host memory: what it takes longer is for a probe to tell");
  }
  return all;
}

std::string assumed_text(const std::vector<std::string>& assumed) {
  std::string text;
  for (const std::string& each : assumed) text += fmt::format("assumed: {}\n", each);
  return text;
}

std::string links_text(const ProblemInput& input) {
  const ClusterSpec& cluster = input.problem.cluster;
  if (cluster.nodes == 1) return "";
  std::string text = "links of each device, one way:";
  for (std::size_t i = 0; i < cluster.links.size(); ++i) {
    const Link& link = cluster.links[i];
    text += fmt::format("{} {} {:.1f} GB/s among {} ({})", i == 0 ? "" : ";", link.name,
                        link.bandwidth.value / 1e9, link.span, input.links_from.at(i));
  }
  return text + "; --cluster says otherwise\n";
}

Json links_json(const ProblemInput& input) {
  Json links = Json::array();
  for (std::size_t i = 0; i < input.problem.cluster.links.size(); ++i) {
    const Link& link = input.problem.cluster.links[i];
    links.push_back({{"name", link.name},
                     {"span", link.span},
                     {"bandwidth_bytes_per_s", link.bandwidth.value},
                     {"latency_s", link.latency.value},
                     {"source", input.links_from.at(i)}});
  }
  return links;
}

}  // namespace planwright::cli
