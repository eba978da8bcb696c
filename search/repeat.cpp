#include "search/repeat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

namespace planwright::search {
namespace {

const Trial& trial_of(std::size_t candidate, const Evidence& evidence,
                      const std::vector<Trial>& history) {
  return history[*evidence.seen[candidate].measured];
}

/// Variance of ln(step) within probes, pooled over those of at least two steps.
double step_variance(const Evidence& evidence, const std::vector<Trial>& history) {
  double squares = 0, freedom = 0;
  for (const std::size_t candidate : evidence.measured) {
    const auto& steps = trial_of(candidate, evidence, history).outcome.measurement()->steps_s;
    double mean = 0;
    for (const double step : steps) mean += std::log(step) / static_cast<double>(steps.size());
    for (const double step : steps) squares += std::pow(std::log(step) - mean, 2);
    freedom += std::max(0.0, static_cast<double>(steps.size()) - 1);
  }
  return freedom > 0 ? squares / freedom : 0;
}

}  // namespace

std::vector<Choice> propose_repeats(const Space& space, const Evidence& evidence,
                                    const std::vector<Trial>& history, const ProbeScope& scope,
                                    double margin, int most) {
  const auto& measured = evidence.measured;
  if (measured.size() < 2) return {};
  const double variance = step_variance(evidence, history);
  const auto steps = [&](std::size_t i) { return trial_of(i, evidence, history).scope.steps; };
  const auto repeated = [&](std::size_t i) { return steps(i) > scope.steps; };
  const auto equal_to_best = [&](std::size_t i) {
    const double step = trial_of(i, evidence, history).outcome.measurement()->step_time_s;
    const double behind = std::log(space.comparable(i, step) / evidence.best_time->value);
    const double deviation = std::sqrt(variance * (1.0 / steps(i) + 1.0 / steps(measured.front())));
    return behind < std::max(std::log1p(margin), 2 * deviation);
  };
  if (std::count_if(measured.begin(), measured.end(), equal_to_best) < 2) return {};
  const auto made = std::count_if(measured.begin(), measured.end(), repeated);
  const auto left = std::min<std::ptrdiff_t>(most, kMostRepeats - made);
  ProbeScope longer = scope;
  longer.steps *= kRepeatFactor;
  const std::string why = fmt::format(
      "too close to call among the fastest: measured again over {} steps", longer.steps);
  std::vector<Choice> contenders;
  for (const std::size_t i : measured) {
    if (std::ssize(contenders) >= left) break;
    if (!equal_to_best(i) || repeated(i) || evidence.seen[i].failed >= kFailuresAllowed) continue;
    contenders.push_back({i, longer, why, 0});
  }
  return contenders;
}

}  // namespace planwright::search
