#pragma once

#include "estimator/spec/target_traits.h"

namespace planwright::targets::builtin {

/// What the built-in worker keeps in memory and can run: docs/runtime.md as data.
const TargetTraits& traits();

}  // namespace planwright::targets::builtin
