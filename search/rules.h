#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::search {

/// The rules that hold for every target, in the order in which they are checked: each axis has a
/// value that the target supports (`zero_supported`, `recompute_supported` …), the ranks are as
/// many as the devices (`world_size`), the global batch is whole micro-batches on every data rank
/// (`global_batch_divides`), and the sequence is within learned positions (`seq_within_positions`).
std::vector<Rule> general_rules(const TargetTraits& traits);

/// The general rules, then the target's own.
std::vector<Rule> rules_for(const TargetTraits& traits);

/// The first of `rules` that `candidate` breaks, or null.
const Rule* first_broken(const std::vector<Rule>& rules, const Problem& problem,
                         const Candidate& candidate);

}  // namespace planwright::search
