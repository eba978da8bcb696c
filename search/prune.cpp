#include "search/prune.h"

#include <cmath>
#include <optional>

namespace planwright::search {
namespace {

/// Why an unmeasured candidate is out of this round; null: it is in.
const char* reason_to_drop(const estimator::Figures& figures, const Seen& seen,
                           std::optional<Seconds> best_time) {
  if (seen.out_of_memory > 0) return "out_of_memory";
  if (!untried(seen)) return "failed";
  if (hardly_fits(figures)) return "too_large";
  if (best_time && cannot_win(figures, *best_time)) return "cannot_win";
  return nullptr;
}

}  // namespace

bool hardly_fits(const estimator::Figures& figures) {
  return figures.fit_probability < kSmallestFitProbability;
}

bool cannot_win(const estimator::Figures& figures, Seconds best_time) {
  return figures.step_time * std::exp(-kOptimism * figures.time_rel) >= best_time;
}

Pruned prune(const Ranking& ranking, const Evidence& evidence) {
  Pruned pruned;
  for (std::size_t i = 0; i < ranking.figures.size(); ++i) {
    const Seen& seen = evidence.seen[i];
    if (seen.measured) continue;
    if (const char* reason = reason_to_drop(ranking.figures[i], seen, evidence.best_time)) {
      ++pruned.dropped[reason];
    } else {
      pruned.kept.push_back(i);
    }
  }
  return pruned;
}

}  // namespace planwright::search
