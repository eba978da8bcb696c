#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"
#include "launcher/user_command.h"

/// Which dimensions a user's command has.
namespace planwright::targets::command {

/// The axes that the command, its flags or its template files name, in the order of the axes.
std::vector<std::string> named_axes(const launcher::UserCommand& user);

/// Those that a command may name in this version.
std::vector<std::string> tunable_axes();

/// The values that these axes can take; every other axis stays at its default, and its fix says
/// that the command does not name it. `place` is where the
/// command stands, for messages. An InputError for a name that is neither an axis nor one of the
/// other values that can be filled in, an axis that cannot be estimated yet, a value that is none
/// of its axis, a template that no word names.
SupportedAxes supported_axes(const launcher::UserCommand& user, const std::string& place);

/// The candidate's value of an axis, as its flag spells it.
std::string axis_value(const Candidate& candidate, const std::string& axis);

/// What else may be filled in: the names of named_values(), kStepsName, and these.
constexpr const char* kTemplate = "template";  ///< the filled template file
constexpr const char* kFlags = "flags";        ///< alone in a word: where [launch.flags] stand

}  // namespace planwright::targets::command
