#include "cli/print_links.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "estimator/spec/words.h"

namespace planwright::cli {

std::string assumed_text(const ProblemInput& input) {
  std::string text;
  for (const std::string& each : input.assumed) text += fmt::format("assumed: {}\n", each);
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
