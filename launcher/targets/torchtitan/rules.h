#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::torchtitan {

/// Which of torchtitan's two forms of configuration a plan's target version has: TOML up to 0.2,
/// Python from 0.3 on.
bool is_python_generation(const Problem& problem);

constexpr const char* kFloat8Knob = "float8_recipe";

const std::vector<Knob>& emitted_knobs();

/// What torchtitan's configuration cannot say.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::torchtitan
