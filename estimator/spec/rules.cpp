#include "estimator/spec/rules.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/spec/axis_values.h"

namespace planwright {
namespace {

constexpr std::string_view kSupported = "_supported";

/// `axis` is the name of the flag with `_` for `-`, which is also its placeholder.
template <class T>
Rule supported(const std::string& axis, T Candidate::*field, const std::vector<T>& values) {
  const std::vector<T> sorted = canonical(values);
  std::vector<std::string> texts;
  std::transform(sorted.begin(), sorted.end(), std::back_inserter(texts),
                 [](const T& value) { return axis_text(value); });
  return {.name = axis + std::string(kSupported),
          .broken =
              [field, values](const Problem&, const Candidate& candidate) {
                return std::find(values.begin(), values.end(), candidate.*field) == values.end();
              },
          .text = "{target} does not support " + axis + " {" + axis + "}",
          .fix = "use " + axis + " " + join_words(texts),
          .source = ""};
}

bool all_among(const std::vector<std::string>& some, const std::vector<std::string>& all) {
  return std::all_of(some.begin(), some.end(), [&](const std::string& each) {
    return std::find(all.begin(), all.end(), each) != all.end();
  });
}

bool is_unnamed(const Recompute& recompute) { return recompute.modules.empty(); }

/// What counts blocks may count any number of them, what names modules name any of the target's.
Rule recompute_supported(const SupportedAxes& axes) {
  const auto& values = axes.recompute;
  std::vector<Recompute> unnamed;
  std::copy_if(values.begin(), values.end(), std::back_inserter(unnamed), is_unnamed);
  Rule rule = supported("recompute", &Candidate::recompute, unnamed);
  rule.broken = [unnamed, modules = axes.recompute_modules](const Problem&,
                                                            const Candidate& candidate) {
    const Recompute& asked = candidate.recompute;
    if (!is_unnamed(asked)) return !all_among(asked.modules, modules);
    return std::none_of(unnamed.begin(), unnamed.end(), [&](const Recompute& value) {
      return value.kind == asked.kind && (value.k > 0 || value == asked);
    });
  };
  if (!axes.recompute_modules.empty()) {
    rule.fix += "; modules of selective: are " + join_words(axes.recompute_modules);
  }
  return rule;
}

Rule offload_supported(const std::vector<Offload>& values) {
  Rule rule = supported("offload", &Candidate::offload, values);
  rule.text += " to {offload_to}";
  return rule;
}

std::vector<Rule> axis_rules(const SupportedAxes& axes) {
  std::vector<Rule> rules{supported("tp", &Candidate::tp, axes.tp),
                          supported("pp", &Candidate::pp, axes.pp),
                          supported("vpp", &Candidate::vpp, axes.vpp),
                          supported("cp", &Candidate::cp, axes.cp),
                          supported("ep", &Candidate::ep, axes.ep),
                          supported("etp", &Candidate::etp, axes.etp),
                          supported("zero", &Candidate::zero, axes.zero),
                          supported("hsdp", &Candidate::hsdp, axes.hsdp),
                          supported("sp", &Candidate::sp, axes.sp),
                          supported("schedule", &Candidate::schedule, axes.schedule),
                          recompute_supported(axes),
                          offload_supported(axes.offload),
                          supported("attention", &Candidate::attention, axes.attention),
                          supported("loss", &Candidate::loss, axes.loss)};
  for (Rule& rule : rules) {
    const auto fix = axes.fixes.find(rule.name.substr(0, rule.name.size() - kSupported.size()));
    if (fix != axes.fixes.end()) rule.fix = fix->second;
  }
  return rules;
}

bool has_setting(const std::vector<Knob>& knobs, const std::pair<std::string, std::string>& set) {
  return std::any_of(knobs.begin(), knobs.end(), [&](const Knob& knob) {
    return knob.name == set.first &&
           std::find(knob.values.begin(), knob.values.end(), set.second) != knob.values.end();
  });
}

std::string knob_list(const std::vector<Knob>& knobs) {
  if (knobs.empty()) return "it has none: leave them out";
  std::string text = "use";
  for (const Knob& knob : knobs) text += " " + knob.name + " = " + join_words(knob.values) + ";";
  text.pop_back();
  return text;
}

Rule knobs_rule(const std::vector<Knob>& knobs) {
  return {.name = "knobs_supported",
          .broken =
              [knobs](const Problem&, const Candidate& candidate) {
                return !std::all_of(candidate.knobs.begin(), candidate.knobs.end(),
                                    [&](const auto& set) { return has_setting(knobs, set); });
              },
          .text = "{knobs}: {target} does not have that knob, or not that value of it",
          .fix = knob_list(knobs),
          .source = ""};
}

Rule world_size_rule() {
  return {.name = "world_size",
          .broken =
              [](const Problem& problem, const Candidate& candidate) {
                return candidate.world() != problem.cluster.devices();
              },
          .text =
              "tp {tp} x pp {pp} x cp {cp} x dp {dp} is {world} ranks, and there are {devices} "
              "devices",
          .fix = "use degrees whose product is the devices, or another --devices",
          .source = ""};
}

/// No micro-batch mends that.
Rule data_ranks_rule() {
  return {.name = "dp_divides_global_batch",
          .broken =
              [](const Problem& problem, const Candidate& candidate) {
                return candidate.dp >= 1 && problem.workload.global_batch % candidate.dp != 0;
              },
          .text = "a global batch of {global_batch} cannot be shared by dp {dp} alike",
          .fix =
              "use a dp that divides {global_batch} (more tp, pp or cp, or fewer --devices), or a "
              "--global-batch that is a multiple of {dp}",
          .source = ""};
}

Rule global_batch_rule() {
  return {.name = "global_batch_divides",
          .broken =
              [](const Problem& problem, const Candidate& candidate) {
                if (candidate.micro_batch < 1 || candidate.dp < 1) return true;
                if (problem.workload.global_batch % candidate.dp != 0) return false;  // said above
                const std::int64_t at_once = std::int64_t{candidate.dp} * candidate.micro_batch;
                return problem.workload.global_batch % at_once != 0;
              },
          .text =
              "a global batch of {global_batch} is not a whole number of micro-batches: dp {dp} "
              "x micro-batch {micro_batch} does not divide it",
          .fix =
              "use a micro-batch that divides {global_batch} / dp {dp}, or a --global-batch that "
              "is a multiple of dp x micro-batch",
          .source = ""};
}

/// Far more bytes than a micro-batch's activations and logits take: each token keeps less than 16
/// values of up to 8 bytes for every width of every block, and with eager attention for every key.
double bytes_in_flight(const Problem& problem, const Candidate& candidate) {
  double widths = static_cast<double>(problem.model.vocab + problem.model.hidden);
  for (const BlockRun& run : problem.model.runs) {
    const BlockSpec& block = run.block;
    widths += static_cast<double>(run.count) *
              static_cast<double>(problem.model.hidden + block.heads * block.head_dim + block.ffn +
                                  problem.model.lora.rank);
    if (candidate.attention == AttentionKernel::eager) {
      widths += static_cast<double>(run.count) * static_cast<double>(block.heads) *
                static_cast<double>(problem.workload.seq);
    }
  }
  return 128 * widths * static_cast<double>(candidate.micro_batch) *
         static_cast<double>(problem.workload.seq);
}

Rule countable_rule() {
  return {.name = "countable_bytes",
          .broken =
              [](const Problem& problem, const Candidate& candidate) {
                constexpr double kMost = 4611686018427387904.0;  // 2^62
                return bytes_in_flight(problem, candidate) > kMost;
              },
          .text = "micro-batch {micro_batch} x {seq} tokens need more bytes than can be counted",
          .fix = "use a smaller --micro-batch or --seq",
          .source = ""};
}

Rule positions_rule() {
  return {
      .name = "seq_within_positions",
      .broken =
          [](const Problem& problem, const Candidate&) {
            return problem.model.positions == Positions::learned &&
                   problem.workload.seq > problem.model.max_positions;
          },
      .text = "a sequence of {seq} is longer than the model's {max_positions} learned positions",
      .fix = "use a --seq of at most {max_positions}",
      .source = ""};
}

}  // namespace

std::vector<Rule> shape_rules() {
  return {world_size_rule(), data_ranks_rule(), global_batch_rule(), countable_rule(),
          positions_rule()};
}

std::vector<Rule> rules_for(const TargetTraits& traits) {
  std::vector<Rule> rules = axis_rules(traits.axes);
  rules.push_back(knobs_rule(traits.knobs));
  for (Rule& rule : shape_rules()) rules.push_back(std::move(rule));
  rules.insert(rules.end(), traits.rules.begin(), traits.rules.end());
  return rules;
}

const Rule* first_broken(const std::vector<Rule>& rules, const Problem& problem,
                         const Candidate& candidate) {
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) {
    return rule.broken(problem, candidate);
  });
  return found == rules.end() ? nullptr : &*found;
}

BrokenRule explain(const Rule& rule, const Problem& problem, const Candidate& candidate) {
  return {rule.name, fill_rule_text(rule.text, problem, candidate),
          fill_rule_text(rule.fix, problem, candidate), rule.source};
}

std::string reason_text(const BrokenRule& broken) {
  return broken.fix.empty() ? broken.text : broken.text + "; " + broken.fix;
}

std::optional<BrokenRule> broken_rule(const Problem& problem, const TargetTraits& traits,
                                      const Candidate& candidate) {
  const std::vector<Rule> rules = rules_for(traits);
  const Rule* broken = first_broken(rules, problem, candidate);
  if (broken == nullptr) return std::nullopt;
  return explain(*broken, problem, candidate);
}

}  // namespace planwright
