#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright {

/// Those that hold whatever the target and its axes: `world_size`, `dp_divides_global_batch`,
/// `global_batch_divides`, `countable_bytes` and `seq_within_positions`, as below.
std::vector<Rule> shape_rules();

/// Every rule that a candidate of this target meets, as they are checked. Each may be asked of any
/// candidate whose degrees and batches are at least 1. First those of all targets: an axis has a
/// value that is supported (`zero_supported` …), and each knob (`knobs_supported`), the ranks are
/// the devices (`world_size`), all data ranks get as much of the global batch
/// (`dp_divides_global_batch`) in whole micro-batches (`global_batch_divides`) of countable bytes
/// (`countable_bytes`), within learned positions (`seq_within_positions`). Then the target's own.
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
