#include "search/propose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "estimator/known.h"

namespace planwright::search {
namespace {

/// Of starting the processes, loading and building the model: the product's own bound.
constexpr Seconds kStart{2.0};

/// How much of a candidate's promise is left after a failure: the world's fault or its own, as
/// likely as not.
constexpr double kTrustAfterFailure = 0.5;

double trust(const Seen& seen) { return std::pow(kTrustAfterFailure, seen.failed); }

double normal_density(double z) {
  return std::exp(-0.5 * z * z) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}
/// P(Z > z).
double normal_tail(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

/// SplitMix64's finalizer: Steele, Lea, Flood (2014), a bijection of 64 bits.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
std::uint64_t turn(std::size_t index, std::uint64_t seed) {
  return seed == 0 ? index : mix(index + mix(seed));
}

/// The kept candidate with the largest score; of equals the one whose turn is first.
template <class Score>
std::size_t argmax(const std::vector<std::size_t>& kept, std::uint64_t seed, const Score& score) {
  return *std::max_element(kept.begin(), kept.end(), [&](std::size_t a, std::size_t b) {
    const auto score_a = score(a), score_b = score(b);
    if (score_a != score_b) return score_a < score_b;
    return turn(a, seed) > turn(b, seed);
  });
}

bool likely_fits(const estimator::Figures& figures) { return figures.fit_probability > 0.5; }

Choice first_choice(const Ranking& ranking, const Evidence& evidence, const Pruned& pruned,
                    const ProbeScope& scope, std::uint64_t seed) {
  const auto score = [&](std::size_t i) {
    const estimator::Figures& figures = ranking.figures[i];
    return std::make_tuple(-evidence.seen[i].failed,
                           likely_fits(figures) ? 1.0 : figures.fit_probability,
                           -figures.step_time.value);
  };
  const std::size_t index = argmax(pruned.kept, seed, score);
  const estimator::Figures& figures = ranking.figures[index];
  if (std::min(figures.time_rel, figures.memory_rel) >= estimator::kSaysNothing) {
    return {index, scope, "nothing is known of the model yet", 0};
  }
  const char* what = likely_fits(figures) ? "predicted fastest that fits" : "likeliest to fit";
  return {index, scope, fmt::format("{}, p(fit) {:.2f}", what, figures.fit_probability), 0};
}

Choice best_choice(const Ranking& ranking, const Evidence& evidence, const Pruned& pruned,
                   const ProbeScope& scope, std::uint64_t seed) {
  const auto improvement = [&](std::size_t i) {
    return promise(ranking.figures[i], *evidence.best_time, 0).improvement;
  };
  const std::size_t index = argmax(pruned.kept, seed, [&](std::size_t i) {
    return trust(evidence.seen[i]) * improvement(i) /
           expected_duration(ranking.figures[i], scope).value;
  });
  const double gain = improvement(index);
  return {index, scope,
          fmt::format("highest expected improvement (+{:.1f} %, p(fit) {:.2f}, {} untried)",
                      100 * gain, ranking.figures[index].fit_probability, pruned.kept.size()),
          gain};
}

}  // namespace

Promise promise(const estimator::Figures& figures, Seconds best_time, double margin) {
  const double gain = std::log(best_time / figures.step_time);
  const double sd = figures.time_rel;
  // E[max(0, X)] of X ~ N(gain, sd²) is gain Φ(z) + sd φ(z), z = gain / sd: Jones, Schonlau, Welch
  // (1998), equation 15. It tends to max(0, gain) as the spread vanishes.
  if (sd <= 0) {
    return {std::max(0.0, gain) * figures.fit_probability,
            gain > std::log1p(margin) ? figures.fit_probability : 0.0};
  }
  const double z = gain / sd;
  const double improvement = gain * normal_tail(-z) + sd * normal_density(z);
  return {std::max(0.0, improvement) * figures.fit_probability,
          normal_tail((std::log1p(margin) - gain) / sd) * figures.fit_probability};
}

Seconds expected_duration(const estimator::Figures& figures, const ProbeScope& scope) {
  const double steps = scope.warmup + scope.steps;
  return kStart + figures.step_time * (steps * figures.fit_probability);
}

std::optional<Choice> propose(const Ranking& ranking, const Evidence& evidence,
                              const Pruned& pruned, const ProbeScope& scope, std::uint64_t seed) {
  if (pruned.kept.empty()) return std::nullopt;
  return evidence.best_time ? best_choice(ranking, evidence, pruned, scope, seed)
                            : first_choice(ranking, evidence, pruned, scope, seed);
}

}  // namespace planwright::search
