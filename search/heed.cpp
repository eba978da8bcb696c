#include "search/heed.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "estimator/shape_error.h"

namespace planwright::search {
namespace {

/// Sizes, as the model has them, of the plans that ran out of memory although it said they fit.
std::vector<Bytes> surprises(const Ranking& ranking, const Evidence& evidence) {
  std::vector<Bytes> sizes;
  for (std::size_t i = 0; i < ranking.figures.size(); ++i) {
    if (evidence.seen[i].out_of_memory > 0 && ranking.figures[i].fits) {
      sizes.push_back(ranking.figures[i].judged);
    }
  }
  return sizes;
}

}  // namespace

void heed_out_of_memory(Ranking& ranking, const Evidence& evidence) {
  const std::vector<Bytes> too_large = surprises(ranking, evidence);
  std::vector<Bytes> fitted;
  for (const std::size_t i : evidence.measured) fitted.push_back(ranking.figures[i].judged);
  for (estimator::Figures& each : ranking.figures) {
    const auto against = std::count_if(too_large.begin(), too_large.end(),
                                       [&](Bytes size) { return size <= each.judged; });
    const auto in_favour = std::count_if(fitted.begin(), fitted.end(),
                                         [&](Bytes size) { return size >= each.judged; });
    each.fit_probability *= std::exp2(-static_cast<double>(std::max(against - in_favour, {})));
  }
}

void heed_surprises(Ranking& ranking, const std::vector<Trial>& history) {
  double squares = kSpreadPriorWeight, weight = kSpreadPriorWeight;
  std::set<std::string> measured;
  for (const Trial& trial : history) {
    const Measurement* measurement = trial.outcome.measurement();
    if (measurement == nullptr || trial.estimate.time_rel <= 0) continue;
    if (!measured.insert(candidate_hash(trial.candidate)).second) continue;
    const double miss = std::log(measurement->step_time_s / trial.estimate.step_time.value);
    squares += std::pow(miss / trial.estimate.time_rel, 2);
    weight += 1;
  }
  const double growth = std::sqrt(std::max(1.0, squares / weight));
  for (estimator::Figures& each : ranking.figures) each.time_rel *= growth;
}

void heed_shape(Ranking& ranking, const Space& space, const Evidence& evidence,
                const std::vector<Trial>& history) {
  std::vector<estimator::Miss> misses;
  for (const std::size_t i : evidence.measured) {
    const Trial& trial = history[*evidence.seen[i].measured];
    const double step = space.comparable(i, trial.outcome.measurement()->step_time_s);
    misses.push_back({space.legal[i], std::log(step / ranking.figures[i].step_time.value)});
  }
  const estimator::ShapeError error(std::move(misses));
  for (std::size_t i = 0; i < ranking.figures.size(); ++i) {
    estimator::Figures& each = ranking.figures[i];
    const auto [mean, sd] = error.at(space.legal[i]);
    each.step_time = each.step_time * std::exp(mean);
    each.time_rel = std::hypot(each.time_rel, sd);
  }
}

}  // namespace planwright::search
