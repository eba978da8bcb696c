#include "estimator/spec/target_traits.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace planwright {
namespace {

std::string knobs_text(const Candidate& c) {
  std::string all;
  for (const auto& [name, value] : c.knobs) {
    all.append(all.empty() ? "" : ", ").append(name).append(" = ").append(value);
  }
  return all;
}

NamedValues candidate_names(const Candidate& c) {
  const auto number = [](auto value) { return std::to_string(value); };
  const auto text = [](auto value) { return std::string(word(value)); };
  return {{"tp", number(c.tp)},
          {"pp", number(c.pp)},
          {"vpp", number(c.vpp)},
          {"cp", number(c.cp)},
          {"ep", number(c.ep)},
          {"etp", number(c.etp)},
          {"dp", number(c.dp)},
          {"zero", number(c.zero)},
          {"hsdp", number(c.hsdp)},
          {"sp", c.sp ? "on" : "off"},
          {"micro_batch", number(c.micro_batch)},
          {"schedule", text(c.schedule)},
          {"recompute", recompute_text(c.recompute)},
          {"offload", offload_text(c.offload)},
          {"offload_to", text(c.offload.to)},
          {"attention", text(c.attention)},
          {"loss", text(c.loss)},
          {"knobs", knobs_text(c)},
          {"world", number(c.world())}};
}

/// The shortest window of any block; 0 if every block sees the whole sequence.
std::int64_t shortest_window(const ModelSpec& model) {
  std::int64_t shortest = 0;
  for (const auto& run : model.runs) {
    const std::int64_t window = run.block.sliding_window;
    if (window > 0) shortest = shortest == 0 ? window : std::min(shortest, window);
  }
  return shortest;
}

NamedValues problem_names(const Problem& p) {
  const BlockSpec block = p.model.runs.empty() ? BlockSpec{} : p.model.runs.front().block;
  return {{"devices", std::to_string(p.cluster.devices())},
          {"per_node", std::to_string(p.cluster.per_node)},
          {"nodes", std::to_string(p.cluster.nodes)},
          {"device", p.cluster.device.name},
          {"global_batch", std::to_string(p.workload.global_batch)},
          {"seq", std::to_string(p.workload.seq)},
          {"precision", std::string(word(p.workload.precision))},
          {"optimizer", std::string(word(p.workload.optimizer))},
          {"heads", std::to_string(block.heads)},
          {"kv_heads", std::to_string(block.kv_heads)},
          {"layers", std::to_string(p.model.layers())},
          {"hidden", std::to_string(p.model.hidden)},
          {"max_positions", std::to_string(p.model.max_positions)},
          {"sliding_window", std::to_string(shortest_window(p.model))},
          {"target", p.target}};
}

}  // namespace

NamedValues named_values(const Problem& problem, const Candidate& candidate) {
  NamedValues names = candidate_names(candidate);
  names.emplace_back("accumulation", std::to_string(accumulation(problem, candidate)));
  for (auto& name : problem_names(problem)) names.push_back(std::move(name));
  return names;
}

std::string fill_rule_text(const std::string& text, const Problem& problem,
                           const Candidate& candidate) {
  const NamedValues names = named_values(problem, candidate);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = text[at] == '{' ? text.find('}', at) : std::string::npos;
    if (close != std::string::npos) {
      const auto name = std::string_view(text).substr(at + 1, close - at - 1);
      const auto found = std::find_if(names.begin(), names.end(),
                                      [&](const auto& entry) { return entry.first == name; });
      if (found != names.end()) {
        out += found->second;
        at = close + 1;
        continue;
      }
    }
    out += text[at++];
  }
  return out;
}

}  // namespace planwright
