#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright {

/// Those that hold whatever the target and its axes: `world_size`, `global_batch_divides`,
/// `countable_bytes` and `seq_within_positions`, as below.
std::vector<Rule> shape_rules();

/// Every rule that a candidate of this target meets, in the order in which they are checked. First
/// those that hold for all targets: each axis has a value that the target supports
/// (`zero_supported`, `recompute_supported` …) and each knob too (`knobs_supported`), the ranks are
/// as many as the devices (`world_size`), the global batch is whole micro-batches on every data
/// rank (`global_batch_divides`) whose bytes can be counted (`countable_bytes`), and the sequence
/// is within learned positions (`seq_within_positions`). Then the target's own.
std::vector<Rule> rules_for(const TargetTraits& traits);

/// The first of `rules` that `candidate` breaks, or null.
const Rule* first_broken(const std::vector<Rule>& rules, const Problem& problem,
                         const Candidate& candidate);

/// Why a candidate is not legal, in words for people.
struct BrokenRule {
  std::string name;
  std::string text;
  std::string fix;
  std::string source;
  bool operator==(const BrokenRule&) const = default;
};

/// A rule's words, filled in for the candidate that breaks it.
BrokenRule explain(const Rule& rule, const Problem& problem, const Candidate& candidate);

/// What it breaks and what to do about it, as one clause.
std::string reason_text(const BrokenRule& broken);

/// The first of rules_for(traits) that a candidate breaks; nullopt if it is legal.
std::optional<BrokenRule> broken_rule(const Problem& problem, const TargetTraits& traits,
                                      const Candidate& candidate);

}  // namespace planwright
