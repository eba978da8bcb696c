#include "cli/candidate_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace planwright::cli {
namespace {

int parse_zero(const Setting& setting) {
  const int stage = parse_count(setting, 0);
  if (stage > 3) refuse(setting, "must be 0, 1, 2 or 3", "3");
  return stage;
}

int parse_ranks(const Setting& setting) { return parse_count(setting, 1); }

Recompute parse_recompute_setting(const Setting& setting) {
  return parse_recompute(setting.text, setting.file, setting.key);
}

Offload parse_offload_setting(const Setting& setting) {
  return parse_offload(setting.text, setting.file, setting.key);
}

const Setting* one_value(const Settings& settings, std::string_view axis) {
  const Setting* setting = settings.find(Table::candidate, axis);
  if (setting != nullptr && setting->text.find(',') != std::string::npos) {
    refuse(*setting, "must be one value: lists are for plan and tune");
  }
  return setting;
}

template <class Value, class Parse>
void read_axis(const Settings& settings, std::string_view axis, Value& value, Parse parse) {
  if (const Setting* setting = one_value(settings, axis)) value = parse(*setting);
}

/// What stands in [space], else in [candidate].
const Setting* space_setting(const Settings& settings, std::string_view axis) {
  const Setting* setting = settings.find(Table::space, axis);
  return setting != nullptr ? setting : settings.find(Table::candidate, axis);
}

template <class Value, class Parse>
void read_values(const Settings& settings, std::string_view axis, std::vector<Value>& values,
                 Parse parse) {
  const Setting* list = space_setting(settings, axis);
  if (list == nullptr) return;
  for (const Setting& part : split_list(*list)) {
    const Value value = parse(part);
    if (std::find(values.begin(), values.end(), value) != values.end()) {
      refuse(*list, fmt::format("has {} twice", part.text));
    }
    values.push_back(value);
  }
}

/// The two readings of the axes differ only in what `read` does with one of them.
template <class Axes, class Read>
void read_axes(Axes& axes, Read read) {
  read("tp", axes.tp, parse_ranks);
  read("pp", axes.pp, parse_ranks);
  read("vpp", axes.vpp, parse_ranks);
  read("cp", axes.cp, parse_ranks);
  read("ep", axes.ep, parse_ranks);
  read("etp", axes.etp, parse_ranks);
  read("dp", axes.dp, parse_ranks);
  read("zero", axes.zero, parse_zero);
  read("hsdp", axes.hsdp, parse_ranks);
  read("micro-batch", axes.micro_batch, parse_ranks);
  read("sp", axes.sp, parse_toggle);
  read("schedule", axes.schedule, parse_setting_word<Schedule>);
  read("recompute", axes.recompute, parse_recompute_setting);
  read("offload", axes.offload, parse_offload_setting);
  read("attention", axes.attention, parse_setting_word<AttentionKernel>);
  read("loss", axes.loss, parse_setting_word<LossKernel>);
}

/// Candidate::world is an int: far more ranks than any cluster has, and far fewer than that holds.
void require_countable(const Settings& settings, Table table, double ranks) {
  constexpr double kMostRanks = 1e9;
  if (ranks <= kMostRanks) return;
  for (const char* axis : {"tp", "pp", "cp", "dp"}) {
    const Setting* setting = settings.find(table, axis);
    if (setting != nullptr) refuse(*setting, "makes more than 10^9 ranks with the other axes");
  }
}

double largest(const std::vector<int>& values) {
  return values.empty() ? 1 : *std::max_element(values.begin(), values.end());
}

std::vector<std::string> split_at_bars(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t bar; (bar = text.find('|', begin)) != std::string::npos; begin = bar + 1) {
    parts.push_back(text.substr(begin, bar - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

[[noreturn]] void refuse_knob(const Setting& setting, const std::string& unknown,
                              const TargetTraits& traits) {
  std::vector<std::string> names;
  for (const Knob& knob : traits.knobs) names.push_back(knob.name);
  const std::string known =
      names.empty() ? "has none" : fmt::format("has {}", fmt::join(names, ", "));
  refuse(
      setting,
      fmt::format("has {}, which is not a knob of target {}: that {}", unknown, traits.name, known),
      nearest_word(unknown, names));
}

const Knob* find_knob(const std::vector<Knob>& knobs, const std::string& name) {
  const auto found =
      std::find_if(knobs.begin(), knobs.end(), [&](const Knob& knob) { return knob.name == name; });
  return found == knobs.end() ? nullptr : &*found;
}

/// In the order of the target's traits, and only what differs from the default.
void read_knobs(const Settings& settings, const TargetTraits& traits, Candidate& candidate) {
  const Setting* setting = settings.find(Table::candidate, "knobs");
  if (setting == nullptr) return;
  const auto given = parse_pairs(*setting);
  for (const auto& [name, value] : given) {
    if (find_knob(traits.knobs, name) == nullptr) refuse_knob(*setting, name, traits);
  }
  for (const Knob& knob : traits.knobs) {
    const auto found = given.find(knob.name);
    if (found == given.end() || found->second == knob.values.front()) continue;
    candidate.knobs.emplace_back(*found);
  }
}

/// Of each knob some values, which the target must have.
std::map<std::string, std::vector<std::string>> read_knob_lists(const Setting& setting,
                                                                const TargetTraits& traits) {
  std::map<std::string, std::vector<std::string>> lists;
  for (const auto& [name, values] : parse_pairs(setting)) {
    const Knob* knob = find_knob(traits.knobs, name);
    if (knob == nullptr) refuse_knob(setting, name, traits);
    for (const std::string& value : lists[name] = split_at_bars(values)) {
      if (std::find(knob->values.begin(), knob->values.end(), value) != knob->values.end())
        continue;
      refuse(
          setting,
          fmt::format("has {}={}, which must be one of {}", name, value, join_words(knob->values)),
          nearest_word(value, knob->values, name + "=", ""));
    }
  }
  return lists;
}

}  // namespace

Candidate read_candidate(const Settings& settings, int devices, const TargetTraits& traits) {
  Candidate candidate;
  read_axes(candidate, [&](std::string_view axis, auto& value, auto parse) {
    read_axis(settings, axis, value, parse);
  });
  read_axis(settings, "offload-to", candidate.offload.to, parse_setting_word<OffloadTo>);
  if (settings.find(Table::candidate, "sp") == nullptr) {
    candidate.sp = traits.axes.sp_with_tp && candidate.tp > 1;
  }
  read_knobs(settings, traits, candidate);
  const double split = 1.0 * candidate.tp * candidate.pp * candidate.cp;
  require_countable(settings, Table::candidate, split * candidate.dp);
  if (settings.find(Table::candidate, "dp") == nullptr) {
    candidate.dp = std::max(1, static_cast<int>(devices / split));
  }
  return candidate;
}

search::SpaceRequest read_space(const Settings& settings, const TargetTraits& traits) {
  search::SpaceRequest request;
  read_axes(request, [&](std::string_view axis, auto& values, auto parse) {
    read_values(settings, axis, values, parse);
  });
  std::vector<OffloadTo> places;
  read_values(settings, "offload-to", places, parse_setting_word<OffloadTo>);
  if (places.size() > 1) {
    refuse(*settings.find(Table::space, "offload-to"), "must be one value for the whole space");
  }
  for (Offload& offload : request.offload) {
    if (!places.empty() && offload != Offload{}) offload.to = places.front();
  }
  if (const Setting* knobs = space_setting(settings, "knobs")) {
    request.knobs = read_knob_lists(*knobs, traits);
  }
  require_countable(
      settings, Table::space,
      largest(request.tp) * largest(request.pp) * largest(request.cp) * largest(request.dp));
  return request;
}

}  // namespace planwright::cli
