#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/logs/log_format.h"

namespace planwright::launcher {

/// Words of a command line for the values of one axis: by the axis' value as the flag spells it
/// ("full"), or by "" for every value. They may have placeholders.
struct AxisFlags {
  std::string axis;  ///< "micro_batch"
  std::map<std::string, std::vector<std::string>> words;
  bool operator==(const AxisFlags&) const = default;
};

/// A file of the user's in which placeholders are filled.
struct TemplateFile {
  std::string path;
  std::string text;
  bool operator==(const TemplateFile&) const = default;
};

/// What a person trains with, as it was given behind `--` or in [launch].
struct UserCommand {
  /// Of the target command the whole line; of the others a script and its own arguments, which
  /// stand behind the target's.
  std::vector<std::string> words{};
  std::vector<AxisFlags> flags{};  ///< these three are the target command's
  std::vector<TemplateFile> templates{};
  std::vector<LogFormat> logs{};  ///< before the target's own
  bool observe = true;
  std::string launcher{};  ///< what starts the ranks; empty: the target's usual one
  /// For a probe and the launch alike, beside what the target sets.
  std::map<std::string, std::string> environment{};
  bool operator==(const UserCommand&) const = default;
};

/// Whether a shell can set it: a name of letters, digits and underscores, no digit first, and a
/// value without a null character.
bool is_variable(std::string_view name, std::string_view value);

/// Of a run: its steps, warm-up included.
constexpr const char* kStepsName = "steps";
/// Stands in a launch for how many, where nobody said.
constexpr const char* kStepsPlaceholder = "STEPS";

/// What its words, templates and flags name in braces, in this order.
std::vector<std::string> placeholders_in(const UserCommand& user);
bool names_placeholder(const UserCommand& user, std::string_view name);

}  // namespace planwright::launcher
