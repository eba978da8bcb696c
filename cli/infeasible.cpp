#include "cli/infeasible.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/print_table.h"

namespace planwright::cli {
namespace {

Bytes at_least(const OutOfMemory& full) { return full.allocated + full.requested; }

/// Device memory whose capacity, headroom taken off, is `wanted`.
Bytes device_memory_for(const Problem& problem, Bytes wanted) {
  const Headroom& headroom = problem.workload.headroom;
  const Bytes together = wanted + headroom.bytes;
  return {static_cast<std::int64_t>(
      std::ceil(static_cast<double>(together.value) / (1 - headroom.fraction)))};
}

/// Each with what to do about it.
std::string rules_text(const std::vector<BrokenRule>& rules) {
  std::string text;
  for (const BrokenRule& each : rules) {
    text += fmt::format("{} {}: {}", text.empty() ? "" : "; and", each.name, reason_text(each));
  }
  return text;
}

/// With how many candidates break them.
std::string most_frequent(const std::vector<std::pair<std::string, std::int64_t>>& rules) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, rules.size()); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", rules[i].first, rules[i].second);
  }
  return text;
}

}  // namespace

std::string illegal_text(const search::Space& space) {
  const search::Refusal& refusal = space.refusal;
  std::string text = fmt::format("none of the {} is legal", counted(space.counted, "candidate"));
  if (space.counted == 1) text = "the one candidate is not legal";
  if (!refusal.always.empty()) {
    text += space.counted == 1 ? "; it breaks" : "; all of them break";
    text += rules_text(refusal.always);
    if (refusal.of_nearest.empty()) return text;
    text += "; beside that";
  } else {
    text += "; no one rule refuses them all";
  }
  return fmt::format("{}, most break {}; the nearest to legal, {}, breaks{}", text,
                     most_frequent(refusal.sometimes), describe(refusal.nearest),
                     rules_text(refusal.of_nearest));
}

std::string nearest_miss_text(const search::Space& space, const search::Ranking& ranking,
                              const estimator::Pricer& pricer) {
  const auto nearest = search::nearest_miss(space, ranking, pricer);
  if (!nearest) return "";
  return fmt::format("the nearest, {}: {}", describe(space.legal[ranking.too_large.front()]),
                     nearest->reason);
}

std::string infeasible_text(const search::Space& space, const search::Ranking& ranking,
                            const estimator::Pricer& pricer) {
  if (space.legal.empty()) return illegal_text(space);
  if (!ranking.fits.empty()) return "";
  return fmt::format("none of the {} fits; {}", counted(space.counted, "candidate"),
                     nearest_miss_text(space, ranking, pricer));
}

std::string out_of_memory_text(const Problem& problem, const std::vector<Trial>& trials) {
  const Trial* nearest = nullptr;
  for (const Trial& trial : trials) {
    const OutOfMemory* full = trial.outcome.out_of_memory();
    if (full == nullptr) continue;
    if (nearest == nullptr || at_least(*full) < at_least(*nearest->outcome.out_of_memory())) {
      nearest = &trial;
    }
  }
  if (nearest == nullptr) return "";
  const OutOfMemory& full = *nearest->outcome.out_of_memory();
  if (full.allocated == Bytes{}) {
    return fmt::format(
        "every probe ran out of memory; the nearest, {}, on rank {}: its log does not say what was "
        "in use",
        describe(nearest->candidate), full.rank);
  }
  return fmt::format(
      "every probe ran out of memory; the nearest, {}: {} did not fit on rank {}{}, "
      "short of at least {} GiB of {} GiB; it may fit with --memory {}B or more",
      describe(nearest->candidate), full.account ? word(*full.account) : "a tensor", full.rank,
      full.phase ? fmt::format(" in {}", word(*full.phase)) : "",
      gib_text(at_least(full) - full.capacity, full.capacity), gib_text(full.capacity),
      device_memory_for(problem, at_least(full)).value);
}

}  // namespace planwright::cli
