#pragma once

#include <string>

#include "launcher/target.h"

namespace planwright::targets::torchtitan {

constexpr const char* kConfigModule = "planwright_config";
constexpr const char* kConfigFunction = "planned";

/// The module of torchtitan 0.3's form: its one function changes a configuration of the registry.
std::string python_config(const launcher::EmitRequest& request);

}  // namespace planwright::targets::torchtitan
