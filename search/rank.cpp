#include "search/rank.h"

#include <algorithm>

namespace planwright::search {

std::vector<estimator::Quantities> quantify(const Problem& problem, const TargetTraits& traits,
                                            const Space& space) {
  estimator::QuantityTable table(problem, traits);
  std::vector<estimator::Quantities> quantities;
  quantities.reserve(space.legal.size());
  for (const Candidate& candidate : space.legal) quantities.push_back(table.quantify(candidate));
  return quantities;
}

Ranking rank(const Space& space, const std::vector<estimator::Quantities>& quantities,
             const estimator::Pricer& pricer) {
  Ranking ranking;
  ranking.dropped = space.dropped;
  ranking.figures.reserve(quantities.size());
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    ranking.figures.push_back(pricer.figures(quantities[i]));
    Seconds& time = ranking.figures.back().step_time;
    time = Seconds{space.comparable(i, time.value)};
    (ranking.figures[i].fits ? ranking.fits : ranking.too_large).push_back(i);
  }
  const auto& figures = ranking.figures;
  std::stable_sort(ranking.fits.begin(), ranking.fits.end(), [&](std::size_t a, std::size_t b) {
    return figures[a].step_time < figures[b].step_time;
  });
  std::stable_sort(
      ranking.too_large.begin(), ranking.too_large.end(),
      [&](std::size_t a, std::size_t b) { return figures[a].judged < figures[b].judged; });
  if (!ranking.too_large.empty()) {
    ranking.dropped["too_large"] = static_cast<std::int64_t>(ranking.too_large.size());
  }
  return ranking;
}

std::optional<Estimate> nearest_miss(const Space& space, const Ranking& ranking,
                                     const std::vector<estimator::Quantities>& quantities,
                                     const estimator::Pricer& pricer) {
  if (ranking.too_large.empty()) return std::nullopt;
  const std::size_t nearest = ranking.too_large.front();
  return pricer.estimate(space.legal[nearest], quantities[nearest]);
}

}  // namespace planwright::search
