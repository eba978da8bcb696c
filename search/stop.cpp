#include "search/stop.h"

#include <fmt/format.h>

#include <algorithm>

#include "search/propose.h"

namespace planwright::search {

Outlook outlook(const Ranking& ranking, const Evidence& evidence, const Pruned& pruned,
                double margin) {
  Outlook outlook;
  if (!evidence.best_time) {
    outlook.largest_chance = pruned.kept.empty() ? 0 : 1;
    return outlook;
  }
  for (const std::size_t i : pruned.kept) {
    const Promise each = promise(ranking.figures[i], *evidence.best_time, margin);
    outlook.gain_left = std::max(outlook.gain_left, each.improvement);
    outlook.largest_chance = std::max(outlook.largest_chance, each.chance);
  }
  return outlook;
}

std::optional<std::string> budget_spent(const Budget& budget, int finished_trials,
                                        double seconds_of_run) {
  if (budget.probes && finished_trials >= *budget.probes) {
    return fmt::format("the budget of {} probe{} is spent", *budget.probes,
                       *budget.probes == 1 ? "" : "s");
  }
  if (budget.seconds && seconds_of_run >= *budget.seconds) {
    return fmt::format("the budget of {:.0f} s is spent", *budget.seconds);
  }
  return std::nullopt;
}

std::optional<std::string> nothing_to_gain(const Budget& budget, const Pruned& pruned,
                                           const Outlook& outlook) {
  if (pruned.kept.empty()) {
    return fmt::format("nothing is left to try: every legal candidate was measured{}",
                       pruned.dropped.empty() ? "" : " or is ruled out");
  }
  if (outlook.largest_chance > budget.chance) return std::nullopt;
  return fmt::format("no untried plan has more than a {:.0f} % chance of being {:.0f} % faster",
                     100 * budget.chance, 100 * budget.margin);
}

}  // namespace planwright::search
