#pragma once

#include <vector>

#include "cli/settings.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/target_traits.h"
#include "search/space.h"

namespace planwright::cli {

/// [candidate]: one value per axis; what is not given is 1 or off, sequence parallelism is what the
/// target does with tensor ranks, and dp is devices / (tp pp cp), rounded down. Whether it is legal
/// is for the rules to say; an InputError for a knob that the target does not have.
Candidate read_candidate(const Settings& settings, int devices, const TargetTraits& traits);

/// [space], and for axes that it does not name [candidate]: the values of each axis. What is not
/// given is free. An InputError for a knob, or a knob's value, that the target does not have.
search::SpaceRequest read_space(const Settings& settings, const TargetTraits& traits);

}  // namespace planwright::cli
