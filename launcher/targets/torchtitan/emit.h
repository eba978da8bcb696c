#pragma once

#include "launcher/target.h"

namespace planwright::targets::torchtitan {

/// torchtitan.toml for target version 0.2, planwright_config.py for 0.3, and torchrun with
/// torchtitan's own entry point, or the request's script in its place. A model of sizes that
/// torchtitan 0.2 does not ship is registered by planwright_model.py. An InputError for a plan that
/// torchtitan's configuration cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::torchtitan
