#pragma once

#include <optional>
#include <string>

#include "search/evidence.h"
#include "search/prune.h"
#include "search/rank.h"

namespace planwright::search {

/// What a study may spend, and when more would not pay.
struct Budget {
  /// Finished trials of the whole study, those of earlier runs included: a rerun of the same
  /// command goes on to the same total. Absent: until nothing untried is likely to win.
  std::optional<int> probes;
  std::optional<double> seconds;  ///< of this run; a probe that has begun is not cut short
  double chance = 0.05;           ///< stop when no untried plan has more than this chance ...
  double margin = 0.02;           ///< ... of being faster than the best by more than this fraction
  ProbeScope scope;               ///< of a first probe
};

/// What untried plans could still gain over the best measured one.
struct Outlook {
  double gain_left = 0;       ///< the largest expected improvement, a fraction
  double largest_chance = 0;  ///< of beating the best by more than the margin
};

/// Over the kept candidates; nothing to compare with yet: chance 1 if any is kept.
Outlook outlook(const Ranking& ranking, const Evidence& evidence, const Pruned& pruned,
                double margin);

/// Why no further probe is paid for, in words for people; nullopt: one is.
std::optional<std::string> budget_spent(const Budget& budget, int finished_trials,
                                        double seconds_of_run);

/// Why no untried candidate is worth a probe; nullopt: one is.
std::optional<std::string> nothing_to_gain(const Budget& budget, const Pruned& pruned,
                                           const Outlook& outlook);

}  // namespace planwright::search
