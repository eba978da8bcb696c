#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright {

/// What a way to recompute counts is there: at most a stage's blocks, and fewer where all of them
/// have a name of their own, so that a search tries no plan twice. `source` is where a target says
/// what it counts.
std::vector<Rule> recompute_rules(const std::string& source);

}  // namespace planwright
