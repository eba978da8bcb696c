#pragma once

#include <string>
#include <vector>

#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"
#include "search/rank.h"

/// The messages of exit code 3: what does not fit, by how much, and the smallest change that would.
namespace planwright::cli {

/// Of a space without a legal candidate: the rules that all of them break, in full; else those that
/// most of them break, and in full what the nearest to legal breaks.
std::string illegal_text(const search::Space& space);

/// By the model: the plan that is nearest to fitting, or the rules that no candidate meets. Empty
/// if a plan fits.
std::string infeasible_text(const search::Space& space, const search::Ranking& ranking,
                            const estimator::Pricer& pricer);

/// The plan that came nearest to fitting, and what its estimate says about it; empty if none is too
/// large.
std::string nearest_miss_text(const search::Space& space, const search::Ranking& ranking,
                              const estimator::Pricer& pricer);

/// By measurement: the trial that came nearest before it ran out of memory. Empty if none did.
std::string out_of_memory_text(const Problem& problem, const std::vector<Trial>& trials);

}  // namespace planwright::cli
