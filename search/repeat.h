#pragma once

#include <optional>
#include <vector>

#include "search/evidence.h"
#include "search/propose.h"

namespace planwright::search {

/// A repeat measures this many times the steps of a first probe.
constexpr int kRepeatFactor = 4;
/// Candidates of a study that are measured again at most.
constexpr int kMostRepeats = 3;

/// The fastest measured candidate that was not measured again yet and whose time cannot be told
/// from the best one's: they differ by less than `margin`, or by less than two deviations of their
/// difference as the scatter of the measured steps has it. nullopt if the best one stands alone, or
/// kMostRepeats were made.
std::optional<Choice> propose_repeat(const Evidence& evidence, const std::vector<Trial>& history,
                                     const ProbeScope& scope, double margin);

}  // namespace planwright::search
