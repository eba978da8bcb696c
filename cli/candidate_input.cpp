#include "cli/candidate_input.h"

#include <fmt/core.h>

#include <algorithm>
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

/// In the order of the target's traits, and only what differs from the default.
void read_knobs(const Settings& settings, const std::vector<Knob>& knobs, Candidate& candidate) {
  const Setting* setting = settings.find(Table::candidate, "knobs");
  if (setting == nullptr) return;
  auto given = parse_pairs(*setting);
  std::vector<std::string> names;
  for (const Knob& knob : knobs) {
    names.push_back(knob.name);
    const auto found = given.find(knob.name);
    if (found == given.end()) continue;
    if (found->second != knob.values.front()) candidate.knobs.emplace_back(*found);
    given.erase(found);
  }
  if (given.empty()) return;
  const std::string& unknown = given.begin()->first;
  refuse(*setting, fmt::format("has {}, which is not a knob of the target", unknown),
         nearest_word(unknown, names));
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
  read_knobs(settings, traits.knobs, candidate);
  const double split = 1.0 * candidate.tp * candidate.pp * candidate.cp;
  require_countable(settings, Table::candidate, split * candidate.dp);
  if (settings.find(Table::candidate, "dp") == nullptr) {
    candidate.dp = std::max(1, static_cast<int>(devices / split));
  }
  return candidate;
}

search::SpaceRequest read_space(const Settings& settings) {
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
    for (const auto& [name, values] : parse_pairs(*knobs)) {
      request.knobs[name] = split_at_bars(values);
    }
  }
  require_countable(
      settings, Table::space,
      largest(request.tp) * largest(request.pp) * largest(request.cp) * largest(request.dp));
  return request;
}

}  // namespace planwright::cli
