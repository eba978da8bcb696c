#include "estimator/spec/fastest_first.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planwright {
namespace {

/// Of the machine between first measurements and those again.
struct Drift {
  double factor = 1;
  std::size_t since = 0;
};

Drift drift_of(const std::vector<Timed>& candidates) {
  double logarithms = 0;
  int count = 0;
  Drift drift;
  for (const Timed& each : candidates) {
    if (!each.again) continue;
    logarithms += std::log(each.again->time / each.first.time);
    drift.since = count == 0 ? each.again->at : std::min(drift.since, each.again->at);
    ++count;
  }
  if (count >= 2) drift.factor = std::exp(logarithms / count);  // of one it may have been luck
  return drift;
}

}  // namespace

std::vector<std::size_t> fastest_first(const std::vector<Timed>& candidates) {
  const Drift drift = drift_of(candidates);
  const auto time = [&](std::size_t i) {
    const Timed& each = candidates[i];
    if (each.again) return each.again->time;
    return each.first.at < drift.since ? each.first.time * drift.factor : each.first.time;
  };
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return time(a) < time(b); });
  return order;
}

}  // namespace planwright
