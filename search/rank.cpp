#include "search/rank.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <tuple>
#include <utility>

namespace planwright::search {
namespace {

/// Candidates [first, end) of a space.
struct Stretch {
  std::size_t first = 0, end = 0;
};

/// Whose stages are parts of the model that no other stretch has, in canonical order.
std::vector<Stretch> stretches_of(const Space& space) {
  const auto layout = [&](std::size_t i) {
    const Candidate& c = space.legal[i];
    return std::tie(c.tp, c.pp, c.vpp, c.cp, c.ep);
  };
  std::vector<Stretch> all;
  for (std::size_t i = 0; i < space.legal.size(); ++i) {
    if (i == 0 || layout(i) != layout(i - 1)) all.push_back({i, i});
    all.back().end = i + 1;
  }
  return all;
}

}  // namespace

std::vector<estimator::Quantities> quantify(const Problem& problem, const TargetTraits& traits,
                                            const Space& space) {
  estimator::QuantityTable table(problem, traits);
  std::vector<estimator::Quantities> quantities;
  quantities.reserve(space.legal.size());
  for (const Candidate& candidate : space.legal) quantities.push_back(table.quantify(candidate));
  return quantities;
}

std::vector<estimator::Figures> price_all(const Problem& problem, const TargetTraits& traits,
                                          const Space& space, const estimator::Pricer& pricer,
                                          unsigned threads) {
  const std::vector<Stretch> stretches = stretches_of(space);
  std::vector<estimator::Figures> figures(space.legal.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    estimator::QuantityTable table(problem, traits);
    for (std::size_t turn = next++; turn < stretches.size(); turn = next++) {
      for (std::size_t i = stretches[turn].first; i < stretches[turn].end; ++i) {
        figures[i] = pricer.figures(table.quantify(space.legal[i]));
      }
      table.forget_stages();
    }
  };
  std::vector<std::future<void>> others;
  const std::size_t most = std::min<std::size_t>(threads, stretches.size());
  while (others.size() + 1 < most) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& each : others) each.get();
  return figures;
}

Ranking rank(const Space& space, std::vector<estimator::Figures> all) {
  Ranking ranking;
  ranking.dropped = space.dropped;
  ranking.figures = std::move(all);
  for (std::size_t i = 0; i < ranking.figures.size(); ++i) {
    Seconds& time = ranking.figures[i].step_time;
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

Ranking rank(const Space& space, const std::vector<estimator::Quantities>& quantities,
             const estimator::Pricer& pricer) {
  std::vector<estimator::Figures> figures;
  figures.reserve(quantities.size());
  for (const auto& each : quantities) figures.push_back(pricer.figures(each));
  return rank(space, std::move(figures));
}

std::optional<std::size_t> surer_plan(const Ranking& ranking) {
  const auto probability = [&](std::size_t place) {
    return ranking.figures[ranking.fits[place]].fit_probability;
  };
  std::size_t surest = 0;
  for (std::size_t place = 0; place < ranking.fits.size(); ++place) {
    if (probability(place) > probability(surest)) surest = place;
    if (probability(surest) >= kSure) break;
  }
  return surest == 0 ? std::nullopt : std::optional(surest);
}

std::optional<Estimate> nearest_miss(const Space& space, const Ranking& ranking,
                                     const estimator::Pricer& pricer) {
  if (ranking.too_large.empty()) return std::nullopt;
  return pricer.estimate(space.legal[ranking.too_large.front()]);
}

}  // namespace planwright::search
