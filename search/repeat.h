#pragma once

#include <vector>

#include "search/evidence.h"
#include "search/propose.h"

namespace planwright::search {

/// A repeat measures this many times the steps of a first probe.
constexpr int kRepeatFactor = 4;
/// Candidates of a study that are measured again at most.
constexpr int kMostRepeats = 3;

/// The measured candidates that were not measured again yet and whose times cannot be told from the
/// best one's, fastest first: they differ by less than `margin`, or by less than two deviations of
/// their difference as the scatter of the measured steps has it. They are to be measured together,
/// in turns. At most `most`, and with those that were measured again before at most kMostRepeats;
/// none if the best one stands alone.
std::vector<Choice> propose_repeats(const Space& space, const Evidence& evidence,
                                    const std::vector<Trial>& history, const ProbeScope& scope,
                                    double margin, int most);

}  // namespace planwright::search
