#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/quantities.h"
#include "estimator/spec/trial.h"

namespace planwright::estimator {

/// One number that a trial has shown, beside which the price function has one of its own.
struct Fact {
  enum class What {
    time,       ///< of a step
    allocated,  ///< peak inside the allocator
    reserved,   ///< peak that an accelerator's allocator has taken
    device,     ///< peak that an accelerator holds in all
    needed,     ///< what an accelerator must hold at least for it
    states,     ///< parameters and optimizer states between steps, of a model that is not known
  };
  What what = What::time;
  double log_value = 0;
  /// Censored: the true value is this or more, or less.
  enum class Bound { none, at_least, at_most };
  Bound bound = Bound::none;
  bool is_bound() const { return bound != Bound::none; }
  /// Of a device that ran full: where it did, and whether a product was asking for its scratch.
  std::optional<Phase> phase;
  std::optional<std::size_t> stage;  ///< absent: the fullest one; a phase is of a stage
  bool in_product = false;
  std::size_t trial = 0;  ///< index into Observations::quantities
};

struct Observations {
  std::vector<Quantities> quantities;  ///< one per trial that shows anything
  std::vector<Fact> facts;
};

/// What can be learned from: trials of this very problem that ran in full and ended well or out of
/// memory. In the order of trial numbers, so that sums over them do not depend on the caller's.
Observations observations_of(const Problem& problem, const TargetTraits& traits,
                             std::vector<Trial> trials);

}  // namespace planwright::estimator
