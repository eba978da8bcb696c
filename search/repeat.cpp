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

/// How close candidates are to the best one. Of its measurements, the one made at about the time of
/// theirs is compared.
class Closeness {
 public:
  Closeness(const Space& space, const Evidence& evidence, const std::vector<Trial>& history,
            double margin)
      : space_(space),
        evidence_(evidence),
        history_(history),
        margin_(margin),
        variance_(step_variance(evidence, history)) {}

  bool equal_to_best(std::size_t i) const {
    const std::size_t best = evidence_.measured.front();
    const Seen& seen = evidence_.seen[best];
    const Seen& mine = evidence_.seen[i];
    const std::size_t number = again(best) ? *mine.measured : *mine.first;
    const bool late = again(i) || number > *seen.measured;
    const Trial& its = history_[number];
    const Trial& of_best = history_[late ? *seen.measured : *seen.first];
    const double behind = std::log(time(i, its) / time(best, of_best));
    const double deviation =
        std::sqrt(variance_ * (1.0 / its.scope.steps + 1.0 / of_best.scope.steps));
    return behind < std::max(std::log1p(margin_), 2 * deviation);
  }
  bool again(std::size_t i) const { return measured_again(evidence_.seen[i], history_); }

 private:
  double time(std::size_t i, const Trial& trial) const {
    return space_.comparable(i, trial.outcome.measurement()->step_time_s);
  }

  const Space& space_;
  const Evidence& evidence_;
  const std::vector<Trial>& history_;
  double margin_;
  double variance_;
};

/// `fresh` ones of the contenders were not measured again before; the others are there to be
/// compared with.
struct Group {
  std::vector<std::size_t> contenders;
  int fresh = 0;
};

Group group_of(const Closeness& closeness, const Evidence& evidence) {
  const auto& measured = evidence.measured;
  const auto made = std::count_if(measured.begin(), measured.end(),
                                  [&](std::size_t i) { return closeness.again(i); });
  Group group;
  for (const std::size_t i : measured) {
    if (!closeness.equal_to_best(i)) continue;
    if (!closeness.again(i)) {
      const bool allowed =
          made + group.fresh < kMostRepeats && evidence.seen[i].failed < kFailuresAllowed;
      if (!allowed) continue;
      ++group.fresh;
    }
    group.contenders.push_back(i);
  }
  return group;
}

}  // namespace

std::vector<Choice> propose_repeats(const Space& space, const Evidence& evidence,
                                    const std::vector<Trial>& history, const ProbeScope& scope,
                                    double margin, int most) {
  if (evidence.measured.size() < 2) return {};
  Group group = group_of(Closeness(space, evidence, history, margin), evidence);
  const bool first_round = group.fresh == std::ssize(group.contenders);
  if (first_round && most < group.fresh) group.contenders.resize(std::max(most, 0));
  const auto size = std::ssize(group.contenders);
  if (group.fresh == 0 || size < 2 || size > most) return {};
  ProbeScope longer = scope;
  longer.steps *= kRepeatFactor;
  const std::string why = fmt::format(
      "too close to call among the fastest: measured again over {} steps", longer.steps);
  std::vector<Choice> choices;
  for (const std::size_t i : group.contenders) choices.push_back({i, longer, why, 0});
  return choices;
}

}  // namespace planwright::search
