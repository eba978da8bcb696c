#pragma once

#include "launcher/target.h"

namespace planwright::targets::nanotron {

/// nanotron.yaml, and torchrun with nanotron's run_train.py, or the request's script in its place,
/// which reads it. An InputError for a plan that the file cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::nanotron
