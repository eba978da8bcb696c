#pragma once

#include "launcher/target.h"

namespace planwright::targets::builtin {

/// A plan file and the `planwright probe --plan` command that runs it.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

/// Traits and emitter together.
launcher::Target target();

}  // namespace planwright::targets::builtin
