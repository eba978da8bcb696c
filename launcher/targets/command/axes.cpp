#include "launcher/targets/command/axes.h"

#include <algorithm>

#include "estimator/spec/axis_values.h"
#include "estimator/spec/error.h"
#include "launcher/placeholders.h"

namespace planwright::targets::command {
namespace {

using launcher::UserCommand;

/// Values of an axis as words; none: all that there are.
using Words = std::vector<std::string>;

struct Place {
  std::string file, key;
};

int number(const std::string& text, const Place& place) {
  if (!text.empty() && text.size() < 9 && text.find_first_not_of("0123456789") == text.npos) {
    return std::stoi(text);
  }
  throw InputError({place.file, place.key, text, "must be a whole number", ""});
}

std::vector<int> numbers(const Words& words, const std::vector<int>& all, const Place& place) {
  if (words.empty()) return all;
  std::vector<int> values;
  for (const std::string& each : words) {
    values.push_back(number(each, place));
    if (std::find(all.begin(), all.end(), values.back()) != all.end()) continue;
    throw InputError({place.file, place.key, each, "is no value of this axis", ""});
  }
  return values;
}

template <class Enum>
std::vector<Enum> enums(const Words& words, const std::vector<Enum>& all, const Place& place) {
  if (words.empty()) return all;
  std::vector<Enum> values;
  for (const std::string& each : words) {
    values.push_back(parse_word<Enum>(each, place.file, place.key));
  }
  return values;
}

std::vector<bool> toggles(const Words& words, const Place& place) {
  if (words.empty()) return {false, true};
  std::vector<bool> values;
  for (const std::string& each : words) {
    if (each != "on" && each != "off") {
      throw InputError({place.file, place.key, each, "must be on or off", ""});
    }
    values.push_back(each == "on");
  }
  return values;
}

std::vector<Recompute> recomputes(const Words& words, const Place& place) {
  if (words.empty()) return {Recompute{}, {RecomputeKind::full, 0, {}}};
  std::vector<Recompute> values;
  for (const std::string& each : words) {
    values.push_back(parse_recompute(each, place.file, place.key));
  }
  return values;
}

/// One axis: its name, the candidate's value of it, and what to support for some words of it. Null
/// for those that the estimator does not express yet.
struct Axis {
  const char* name;
  std::string (*value)(const Candidate&);
  void (*support)(SupportedAxes&, const Words&, const Place&) = nullptr;
};

const std::vector<Axis>& all_axes() {
  static const std::vector<Axis> kAxes{
      {"tp", [](const Candidate& c) { return std::to_string(c.tp); },
       [](SupportedAxes& a, const Words& w, const Place& p) {
         a.tp = numbers(w, usual_degrees(), p);
       }},
      {"pp", [](const Candidate& c) { return std::to_string(c.pp); },
       [](SupportedAxes& a, const Words& w, const Place& p) {
         a.pp = numbers(w, usual_degrees(), p);
       }},
      {"vpp", [](const Candidate& c) { return std::to_string(c.vpp); }},
      {"cp", [](const Candidate& c) { return std::to_string(c.cp); }},
      {"ep", [](const Candidate& c) { return std::to_string(c.ep); }},
      {"etp", [](const Candidate& c) { return std::to_string(c.etp); }},
      {"zero", [](const Candidate& c) { return std::to_string(c.zero); },
       [](SupportedAxes& a, const Words& w, const Place& p) {
         a.zero = numbers(w, {0, 1, 2, 3}, p);
       }},
      {"hsdp", [](const Candidate& c) { return std::to_string(c.hsdp); },
       [](SupportedAxes& a, const Words& w, const Place& p) {
         a.hsdp = numbers(w, usual_degrees(), p);
       }},
      {"micro_batch", [](const Candidate& c) { return std::to_string(c.micro_batch); },
       [](SupportedAxes&, const Words& w, const Place& p) {
         for (const std::string& each : w) number(each, p);
       }},
      {"sp", [](const Candidate& c) { return std::string(c.sp ? "on" : "off"); },
       [](SupportedAxes& a, const Words& w, const Place& p) { a.sp = toggles(w, p); }},
      {"schedule", [](const Candidate& c) { return std::string(word(c.schedule)); },
       [](SupportedAxes& a, const Words& w, const Place& p) {
         a.schedule = enums<Schedule>(w, {Schedule::gpipe, Schedule::one_f_one_b}, p);
       }},
      {"recompute", [](const Candidate& c) { return recompute_text(c.recompute); },
       [](SupportedAxes& a, const Words& w, const Place& p) { a.recompute = recomputes(w, p); }},
      {"offload", [](const Candidate& c) { return offload_text(c.offload); }},
      {"attention", [](const Candidate& c) { return std::string(word(c.attention)); },
       [](SupportedAxes& a, const Words& w, const Place& p) {
         a.attention =
             enums<AttentionKernel>(w, {AttentionKernel::flash, AttentionKernel::eager}, p);
       }},
      {"loss", [](const Candidate& c) { return std::string(word(c.loss)); },
       [](SupportedAxes& a, const Words& w, const Place& p) {
         a.loss =
             enums<LossKernel>(w, {LossKernel::plain, LossKernel::fused, LossKernel::chunked}, p);
       }},
  };
  return kAxes;
}

const Axis* find_axis(const std::string& name) {
  for (const Axis& axis : all_axes()) {
    if (axis.name == name) return &axis;
  }
  return nullptr;
}

/// Every name that may stand in braces.
std::vector<std::string> known_names() {
  std::vector<std::string> names{launcher::kStepsName, kTemplate, kFlags};
  for (const auto& [name, value] : named_values(Problem{}, Candidate{})) names.emplace_back(name);
  return names;
}

/// The values that [launch.flags] gives words for; none if it gives them for all, or none at all.
Words flagged_values(const UserCommand& user, const std::string& axis) {
  Words values;
  for (const launcher::AxisFlags& flags : user.flags) {
    if (flags.axis != axis) continue;
    for (const auto& [value, words] : flags.words) {
      if (!value.empty()) values.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::vector<std::string> named_axes(const UserCommand& user) {
  const std::vector<std::string> names = launcher::placeholders_in(user);
  std::vector<std::string> axes;
  for (const Axis& axis : all_axes()) {
    const bool filled = std::find(names.begin(), names.end(), axis.name) != names.end();
    const bool flagged = std::any_of(user.flags.begin(), user.flags.end(),
                                     [&](const auto& flags) { return flags.axis == axis.name; });
    if (filled || flagged) axes.emplace_back(axis.name);
  }
  return axes;
}

std::vector<std::string> tunable_axes() {
  std::vector<std::string> names;
  for (const Axis& axis : all_axes()) {
    if (axis.support != nullptr) names.emplace_back(axis.name);
  }
  return names;
}

namespace {

/// A template is filled for a word that names the copy.
void require_use_of_templates(const UserCommand& user, const std::string& place) {
  UserCommand line = user;
  line.templates.clear();
  if (user.templates.empty() || launcher::names_placeholder(line, kTemplate)) return;
  throw InputError({place, "template", user.templates.front().path,
                    "is read by nobody: put {template}, the path of its filled copy, into the "
                    "command",
                    ""});
}

/// What only the command's own words have is in no other `text` of `where`.
void refuse_in(const std::string& where, const std::string& text, const std::string& name,
               const std::string& place) {
  const std::vector<std::string> names = launcher::placeholders_in(text);
  if (std::find(names.begin(), names.end(), name) == names.end()) return;
  throw InputError(
      {place, where, "{" + name + "}", "is filled in in the words of the command only", ""});
}

void require_places_of_others(const UserCommand& user, const std::string& place) {
  for (const launcher::TemplateFile& file : user.templates) {
    refuse_in("template " + file.path, file.text, kTemplate, place);
    refuse_in("template " + file.path, file.text, kFlags, place);
  }
  for (const launcher::AxisFlags& flags : user.flags) {
    const std::string where = "[launch.flags] " + flags.axis;
    for (const auto& [value, words] : flags.words) {
      for (const std::string& word : words) {
        refuse_in(where, word, kFlags, place);
        if (user.templates.empty()) refuse_in(where, word, kTemplate, place);
      }
    }
  }
}

/// {flags} stands for words, and {template} for a file.
void require_places(const UserCommand& user, const std::string& place) {
  require_use_of_templates(user, place);
  require_places_of_others(user, place);
  for (const std::string& word : user.words) {
    for (const std::string& name : launcher::placeholders_in(word)) {
      if (name == kFlags && word != "{flags}") {
        throw InputError(
            {place, word, "", "{flags} stands for words: it must be one by itself", ""});
      }
      if (name == kTemplate && user.templates.empty()) {
        throw InputError({place, word, "", "there is no template: name one with --template", ""});
      }
    }
  }
}

}  // namespace

SupportedAxes supported_axes(const UserCommand& user, const std::string& place) {
  require_places(user, place);
  const std::vector<std::string> known = known_names();
  for (const std::string& name : launcher::placeholders_in(user)) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw InputError(
        {place, "{" + name + "}", "",
         "is nothing that can be filled in (for these very letters write {{" + name + "}})",
         nearest_word(name, known, "{", "}")});
  }
  for (const launcher::AxisFlags& flags : user.flags) {
    if (find_axis(flags.axis) != nullptr) continue;
    std::vector<std::string> axes;
    for (const Axis& axis : all_axes()) axes.emplace_back(axis.name);
    throw InputError({place, "[launch.flags] " + flags.axis, "", "is not an axis of a plan",
                      nearest_word(flags.axis, axes)});
  }
  SupportedAxes supported;
  for (const std::string& name : tunable_axes()) {
    supported.fixes[name] =
        "the command names " + name + " neither in braces nor in [launch.flags]";
  }
  for (const std::string& name : named_axes(user)) {
    const Axis& axis = *find_axis(name);
    if (axis.support == nullptr) {
      throw InputError({place, name, "", "is an axis that this version cannot estimate yet", ""});
    }
    supported.fixes.erase(name);
    axis.support(supported, flagged_values(user, name), {place, "[launch.flags] " + name});
  }
  return supported;
}

std::string axis_value(const Candidate& candidate, const std::string& axis) {
  return find_axis(axis)->value(candidate);
}

}  // namespace planwright::targets::command
