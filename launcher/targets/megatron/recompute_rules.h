#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::megatron {

/// What --recompute-modules may name.
std::vector<std::string> recomputed_module_names();

/// What Megatron Core has no way to make again.
std::vector<Rule> recompute_rules_of_files();

/// What it does not make again though it is told to.
std::vector<Rule> estimable_modules();

}  // namespace planwright::targets::megatron
