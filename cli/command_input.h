#pragma once

#include "cli/settings.h"
#include "launcher/user_command.h"

namespace planwright::cli {

/// What the user trains with, from behind `--` or from [launch]; without words if nothing was
/// given. In a file a word that names a file beside it means that one. An InputError for a template
/// or a table that cannot be read.
launcher::UserCommand read_user_command(const Settings& settings);

/// Where the command was given, for messages about it.
Setting command_setting(const Settings& settings);

/// The same words in [launch]'s form, as `command` behind `--` is kept among the settings. An
/// InputError if one of them is not UTF-8.
Setting setting_of_words(const std::vector<std::string>& words);

}  // namespace planwright::cli
