#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/user_command.h"

namespace planwright::launcher {

/// The script of the command, if it is not there for whoever starts the command in the current
/// folder: the first word that ends in .py, of a command that begins with it or with a program that
/// starts scripts of this host. nullopt if it is there, if its name depends on the plan, or if
/// nothing of this host can tell, as of a module or of a container's files.
std::optional<std::string> missing_script(const UserCommand& user);

/// As execvp would find it, with PATH from `environment` if that has one; a path is itself.
std::optional<std::string> find_program(const std::string& program,
                                        const std::map<std::string, std::string>& environment);
/// Programs of that PATH.
std::vector<std::string> programs_in_path(const std::map<std::string, std::string>& environment);

}  // namespace planwright::launcher
