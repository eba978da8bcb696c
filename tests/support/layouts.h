#pragma once

#include <string>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"

namespace planwright::testing {

/// Plans of the built-in runtime on up to eight ranks: every parallel axis and every way to
/// recompute alone, then in combinations.
const std::vector<Candidate>& layouts();

/// Models whose vocabulary and layers no layout divides evenly: learned positions, biases and a
/// tied head; rotary positions, grouped heads and a head of its own.
enum class LayoutModel { gpt_tied, llama };
ModelSpec layout_model(LayoutModel which);

/// What the layouts train: 16 sequences of 24 tokens a step.
Problem layout_problem(LayoutModel which, const Candidate& candidate, Precision precision);

}  // namespace planwright::testing
