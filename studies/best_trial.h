#pragma once

#include <vector>

#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"

namespace planwright::studies {

/// The trial that a study stands for, by the rule of the tuning loop: of each candidate the
/// measurement with the most steps counts (the latest of equals), none that ever ran out of memory
/// does, and of those that fit the first of fastest_first() wins. Null if nothing was measured.
/// Optuna's own `best_trial` is the highest value of all, which a first, short measurement may have
/// had by luck.
const Trial* best_trial(const Problem& problem, const std::vector<Trial>& trials);

}  // namespace planwright::studies
