#include "estimator/spec/candidate.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>

#include "estimator/spec/json_fields.h"
#include "estimator/spec/sha256.h"

namespace planwright {
namespace {

bool counts_layers(RecomputeKind kind) {
  return kind == RecomputeKind::chunk || kind == RecomputeKind::alternate ||
         kind == RecomputeKind::first;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

/// One way to write a set of names.
void sort_once(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
}

/// A count of layers: digits only, from 1.
std::optional<int> layer_count(std::string_view text) {
  int k = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), k);
  if (error != std::errc{} || end != text.data() + text.size() || k < 1) return std::nullopt;
  return k;
}

/// The parts of a description, without those at their default.
class Parts {
 public:
  template <class T>
  void axis(const char* name, T value, T usual) {
    if (value != usual) add(name, std::to_string(value));
  }
  template <class Enum>
  void choice(const char* name, Enum value, Enum usual) {
    if (value != usual) add(name, std::string(word(value)));
  }
  void add(const std::string& name, const std::string& value) {
    parts_.push_back(name + " " + value);
  }
  std::string text() const { return join(parts_, ", "); }

 private:
  std::vector<std::string> parts_;
};

std::string stages_text(const std::vector<StagePlan>& stages) {
  std::vector<std::string> blocks;
  for (const auto& stage : stages) blocks.push_back(std::to_string(stage.blocks));
  return join(blocks, "/");
}

}  // namespace

std::int64_t Candidate::world() const {
  std::int64_t ranks = 1;
  for (const int axis : {tp, pp, cp, dp}) {
    if (__builtin_mul_overflow(ranks, axis, &ranks)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return ranks;
}

std::string recompute_text(const Recompute& recompute) {
  std::string text(word(recompute.kind));
  if (counts_layers(recompute.kind)) text.append(":").append(std::to_string(recompute.k));
  if (!recompute.modules.empty()) text.append(":").append(join(recompute.modules, "+"));
  return text;
}

Recompute parse_recompute(std::string_view text, const std::string& file, const std::string& key) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const bool has_argument = colon != std::string_view::npos;
  const std::string_view argument = has_argument ? text.substr(colon + 1) : std::string_view{};
  const auto refuse = [&](const std::string& rule, const std::string& nearest) {
    throw InputError({file, key, std::string(text), rule, nearest});
  };

  Recompute out;
  out.kind = parse_word<RecomputeKind>(name, file, key);
  if (counts_layers(out.kind)) {
    const auto k = layer_count(argument);
    if (!k) refuse("must carry a number of layers from 1", std::string(name) + ":1");
    out.k = *k;
  } else if (has_argument) {
    if (out.kind != RecomputeKind::selective) refuse("takes nothing after it", std::string(name));
    out.modules = split(argument, '+');
    for (const auto& module : out.modules) {
      if (module.empty()) refuse("must name modules joined by +", "selective:core_attn");
    }
    sort_once(out.modules);
    if (out.modules == std::vector{std::string(kAttentionCore)}) out.modules.clear();  // as without
  }
  return out;
}

std::string offload_text(const Offload& offload) {
  std::vector<std::string> parts;
  if (offload.optimizer) parts.emplace_back("optimizer");
  if (offload.params) parts.emplace_back("params");
  if (offload.activations) parts.emplace_back("activations");
  return parts.empty() ? "none" : join(parts, "+");
}

Offload parse_offload(std::string_view text, const std::string& file, const std::string& key) {
  Offload out;
  if (text == "none") return out;
  for (const auto& part : split(text, '+')) {
    bool* flag = part == "optimizer"     ? &out.optimizer
                 : part == "params"      ? &out.params
                 : part == "activations" ? &out.activations
                                         : nullptr;
    if (flag == nullptr) {
      throw InputError({file, key, std::string(text),
                        "must be none, or some of optimizer, params and activations joined by +",
                        nearest_word(part, {"none", "optimizer", "params", "activations"})});
    }
    *flag = true;
  }
  return out;
}

std::string describe(const Candidate& c) {
  const Candidate usual;
  Parts parts;
  parts.axis("tp", c.tp, usual.tp);
  parts.axis("pp", c.pp, usual.pp);
  parts.axis("vpp", c.vpp, usual.vpp);
  parts.axis("cp", c.cp, usual.cp);
  parts.axis("ep", c.ep, usual.ep);
  parts.axis("etp", c.etp, usual.etp);
  parts.add("dp", std::to_string(c.dp));
  parts.axis("zero", c.zero, usual.zero);
  parts.axis("hsdp", c.hsdp, usual.hsdp);
  if (c.sp) parts.add("sp", "on");
  parts.add("micro-batch", std::to_string(c.micro_batch));
  parts.choice("schedule", c.schedule, usual.schedule);
  if (c.recompute != usual.recompute) parts.add("recompute", recompute_text(c.recompute));
  if (c.offload != usual.offload) parts.add("offload", offload_text(c.offload));
  parts.choice("offload-to", c.offload.to, usual.offload.to);
  parts.choice("attention", c.attention, usual.attention);
  parts.choice("loss", c.loss, usual.loss);
  for (const auto& [name, value] : c.knobs) parts.add(name, value);
  if (!c.stages.empty()) parts.add("stages", stages_text(c.stages));
  return parts.text();
}

std::string candidate_hash(const Candidate& candidate) {
  return sha256_hex(canonical_text(to_json(candidate))).substr(0, 12);
}

}  // namespace planwright
