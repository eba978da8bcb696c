#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::nanotron {

/// Whether column-parallel products gather their inputs again in backward: `off` keeps them.
constexpr const char* kGatherKnob = "tp_recompute_allgather";

bool keeps_gathered(const Candidate& candidate);

const std::vector<Knob>& emitted_knobs();

/// What nanotron refuses or fails at, and what these files have no words for.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::nanotron
