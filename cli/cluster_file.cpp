#include "cli/cluster_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "cli/sizes.h"
#include "cli/toml_text.h"
#include "estimator/spec/text_file.h"

namespace planwright::cli {
namespace {

/// One table of the file. Each key is asked for once; what was not asked for is unknown.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string file, std::string prefix)
      : table_(table), file_(std::move(file)), prefix_(std::move(prefix)) {}

  std::optional<Setting> text(const std::string& key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value_exact<std::string>();
    if (!value) refuse(place(key), "must be a text in quotes");
    return Setting{*value, file_, prefix_ + key};
  }
  std::optional<double> number(const std::string& key) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value<double>();
    if (!value || !(*value > 0) || !std::isfinite(*value) || !node->is_number()) {
      refuse(place(key), "must be a finite number of more than zero");
    }
    return value;
  }
  const toml::array* tables(const std::string& key) {
    const toml::node* node = find(key);
    if (node == nullptr) return nullptr;
    if (!node->is_array_of_tables()) refuse(place(key), fmt::format("must be tables [[{}]]", key));
    return node->as_array();
  }
  template <class Value>
  Value required(const std::string& key, std::optional<Value> value) {
    if (!value) refuse(place(key), "is missing");
    return *value;
  }
  void finish() const {
    for (const auto& [name, node] : table_) {
      const std::string key(name.str());
      if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
      refuse(place(key), "is not a key of a cluster file", nearest_word(key, asked_));
    }
  }
  Setting place(const std::string& key) const { return {"", file_, prefix_ + key}; }

 private:
  const toml::node* find(const std::string& key) {
    asked_.push_back(key);
    return table_.get(key);
  }

  const toml::table& table_;
  std::string file_;
  std::string prefix_;
  std::vector<std::string> asked_;
};

Link read_link(const toml::table& table, const std::string& path) {
  TableReader reader(table, path, "[[link]] ");
  Link link;
  link.name = reader.required("name", reader.text("name")).text;
  link.bandwidth = parse_rate(reader.required("bandwidth", reader.text("bandwidth")));
  link.latency = Seconds{1e-6 * reader.required("latency_us", reader.number("latency_us"))};
  const double span = reader.required("span", reader.number("span"));
  link.span = static_cast<int>(std::min(span, 1e6));
  if (link.span != span) refuse(reader.place("span"), "must be a whole number of devices");
  reader.finish();
  return link;
}

void check_spans(const std::vector<Link>& links, const ClusterSpec& cluster,
                 const std::string& path) {
  int inner = 0;
  for (const Link& link : links) {
    if (link.span <= inner) {
      refuse({std::to_string(link.span), path, "[[link]] span"},
             "must be more than that of the link before it: the innermost stands first");
    }
    inner = link.span;
  }
  if (inner < cluster.devices()) {
    refuse({std::to_string(inner), path, "[[link]] span"},
           fmt::format("must reach all {} devices in the last link", cluster.devices()));
  }
}

}  // namespace

void apply_cluster_file(const std::string& path, ClusterSpec& cluster) {
  apply_cluster_toml(read_given_file(path), path, cluster);
}

void apply_cluster_toml(const std::string& text, const std::string& path, ClusterSpec& cluster) {
  const toml::table file = parse_toml(text, path);
  TableReader reader(file, path, "");
  if (const auto memory = reader.text("host_memory")) cluster.host_memory = parse_size(*memory);
  if (const auto rate = reader.text("pcie")) cluster.pcie = parse_rate(*rate);
  if (const auto price = reader.number("price_per_device_hour")) {
    cluster.price_per_device_hour = price;
  }
  if (const toml::array* tables = reader.tables("link")) {
    std::vector<Link> links;
    for (const toml::node& each : *tables) links.push_back(read_link(*each.as_table(), path));
    check_spans(links, cluster, path);
    cluster.links = std::move(links);
  }
  reader.finish();
}

}  // namespace planwright::cli
