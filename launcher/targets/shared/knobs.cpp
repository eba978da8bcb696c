#include "launcher/targets/shared/knobs.h"

#include <algorithm>
#include <utility>

namespace planwright::targets {
namespace {

const Knob* find_knob(const std::vector<Knob>& knobs, std::string_view name) {
  const auto found =
      std::find_if(knobs.begin(), knobs.end(), [&](const Knob& knob) { return knob.name == name; });
  return found == knobs.end() ? nullptr : &*found;
}

bool has_value(const Knob& knob, const std::string& value) {
  return std::find(knob.values.begin(), knob.values.end(), value) != knob.values.end();
}

std::string list_of(const std::vector<Knob>& knobs) {
  std::string text;
  for (const Knob& knob : knobs) {
    text += (text.empty() ? "use " : "; ") + knob.name + " = " + join_words(knob.values);
  }
  return text.empty() ? "leave them out" : text;
}

}  // namespace

std::string knob_value(const Candidate& candidate, const std::vector<Knob>& knobs,
                       std::string_view name) {
  const auto set = std::find_if(candidate.knobs.begin(), candidate.knobs.end(),
                                [&](const auto& each) { return each.first == name; });
  if (set != candidate.knobs.end()) return set->second;
  const Knob* knob = find_knob(knobs, name);
  return knob == nullptr ? "" : knob->values.front();
}

Rule known_knobs(const std::vector<Knob>& knobs, const std::string& source) {
  return {"known_knobs",
          [knobs](const Problem&, const Candidate& candidate) {
            return !std::all_of(candidate.knobs.begin(), candidate.knobs.end(),
                                [&](const auto& set) {
                                  const Knob* knob = find_knob(knobs, set.first);
                                  return knob != nullptr && has_value(*knob, set.second);
                                });
          },
          "the plan sets a knob, or a value of one, that the files of target {target} do not have",
          list_of(knobs), source};
}

}  // namespace planwright::targets
