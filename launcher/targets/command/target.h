#pragma once

#include <string>

#include "launcher/target.h"

/// Any training script, known by its command line alone. What it keeps in memory and how fast it is
/// nobody has written down: the estimate is that of a plain PyTorch loop, with factors that are
/// learned from the first probe on.
namespace planwright::targets::command {

/// The target that `user`'s command is: its axes are those that the command names, its version is
/// the command itself, so that two commands have two studies. `place` is where the command stands,
/// for messages. An InputError if there is no command, or for what is wrong in it.
launcher::Target target(const launcher::UserCommand& user, const std::string& place);

/// The command with the plan's values filled in, and the template files beside it. An InputError if
/// the plan has a value of an axis for which the command has no words.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::command
