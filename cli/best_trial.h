#pragma once

#include <vector>

#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"

namespace planwright::cli {

/// The trial that a study stands for: of each candidate the measurement with the most steps counts
/// (the latest of equals), and of those that fit the fastest wins, as in the tuning loop. Null if
/// nothing was measured.
const Trial* best_trial(const Problem& problem, const std::vector<Trial>& trials);

}  // namespace planwright::cli
