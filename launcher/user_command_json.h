#pragma once

#include <string>

#include "estimator/spec/json.h"
#include "launcher/user_command.h"

namespace planwright::launcher {

/// The whole of it, texts of templates included.
Json to_json(const UserCommand& user);

/// An InputError that names `source` and the key if it is no command.
UserCommand user_command_from_json(const Json& json, const std::string& source);

}  // namespace planwright::launcher
