#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets {

/// The candidate's value of a knob, or the knob's default, which is its first value.
std::string knob_value(const Candidate& candidate, const std::vector<Knob>& knobs,
                       std::string_view name);

/// The candidate sets these knobs and no others, to values that they have.
Rule known_knobs(const std::vector<Knob>& knobs, const std::string& source);

}  // namespace planwright::targets
