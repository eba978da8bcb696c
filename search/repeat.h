#pragma once

#include <vector>

#include "search/evidence.h"
#include "search/propose.h"

namespace planwright::search {

/// A repeat measures this many times the steps of a first probe.
constexpr int kRepeatFactor = 4;
/// Candidates of a study that are measured again at most.
constexpr int kMostRepeats = 3;

/// The measured candidates whose times cannot be told from the best one's, fastest first: they
/// differ by less than `margin`, or by less than two deviations of their difference as the scatter
/// of the measured steps has it. They are to be measured together, in turns: a new time of one says
/// nothing of others' times of before. So there are at least two or none, and those that were
/// measured again before come along, if any that were not are among them. At most `most`; of a
/// study, kMostRepeats.
std::vector<Choice> propose_repeats(const Space& space, const Evidence& evidence,
                                    const std::vector<Trial>& history, const ProbeScope& scope,
                                    double margin, int most);

}  // namespace planwright::search
