#include "cli/infeasible.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

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

}  // namespace

std::string illegal_text(const search::Space& space) {
  const auto most =
      std::max_element(space.dropped.begin(), space.dropped.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const BrokenRule& broken = space.examples.at(most->first);
  return fmt::format("none of the {} is legal; rules that they break: {}; {}",
                     counted(space.counted, "candidate"), counts_text(space.dropped),
                     reason_text(broken));
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
  return fmt::format(
      "every probe ran out of memory; the nearest, {}: {} did not fit on rank {}{}, "
      "short of at least {} GiB of {} GiB; it may fit with --memory {}B or more",
      describe(nearest->candidate), full.account ? word(*full.account) : "a tensor", full.rank,
      full.phase ? fmt::format(" in {}", word(*full.phase)) : "",
      gib_text(at_least(full) - full.capacity, full.capacity), gib_text(full.capacity),
      device_memory_for(problem, at_least(full)).value);
}

}  // namespace planwright::cli
