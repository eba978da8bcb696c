#pragma once

#include "cli/settings.h"
#include "estimator/spec/cluster_spec.h"
#include "launcher/target.h"
#include "launcher/user_command.h"

namespace planwright::cli {

/// What the user trains with, from behind `--`, from [launch] or from the --plan file, else `kept`;
/// the other keys of [launch] come over that. In a file a word that names a file beside it means
/// that one. An InputError for a template or a table that cannot be read.
launcher::UserCommand read_user_command(const Settings& settings, launcher::UserCommand kept = {});

/// Refuses to start a command whose program is not in the PATH.
void require_program(const Settings& settings, const launcher::UserCommand& user);

/// Refuses to start a command whose script is not there.
void require_script(const Settings& settings, const launcher::UserCommand& user);

/// Refuses threads in the environment that are not those of --threads, by which ranks on a CPU are
/// estimated and started.
void require_own_threads(const Settings& settings, const ClusterSpec& cluster);

/// Where the command was given, else the plan file that has it; for messages about it.
Setting command_setting(const Settings& settings);

/// Refuses a --launcher for a target that starts no ranks by one, and a program in the place of the
/// script that a framework's target starts itself.
void require_startable(const Settings& settings, const launcher::Target& target,
                       const launcher::UserCommand& user);

/// Refuses a command that every plan would start in the same words.
void require_something_to_tune(const Settings& settings, const Problem& problem,
                               const launcher::UserCommand& user);

/// The same words in [launch]'s form, as `command` behind `--` is kept among the settings. An
/// InputError if one of them is not UTF-8.
Setting setting_of_words(const std::vector<std::string>& words);

}  // namespace planwright::cli
