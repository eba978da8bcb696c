#include "estimator/unit_windows.h"

#include <cstddef>
#include <utility>

namespace planwright::estimator {
namespace {

/// What comes and goes with units.
std::vector<const FlatLayout*> layouts_of(const StageStep& step) {
  std::vector<const FlatLayout*> all{&step.frozen, &step.layout};
  if (step.experts != nullptr && !step.experts->tensors.empty()) all.push_back(step.experts);
  return all;
}

std::vector<std::int64_t> elements_of_units(const StageStep& step, std::size_t units) {
  std::vector<std::int64_t> elements(units);
  for (const FlatLayout* layout : layouts_of(step)) {
    for (const FlatTensor& tensor : layout->tensors) {
      elements[static_cast<std::size_t>(tensor.unit)] += tensor.numel;
    }
  }
  return elements;
}

/// Units that stay gathered until their backward. What follows a unit is used twice before that.
std::vector<bool> kept_units(const StageStep& step, std::size_t units) {
  std::vector<bool> kept(units, step.sharding.gathering == Gathering::each_micro_batch);
  const std::vector<std::int64_t> elements = elements_of_units(step, units);
  std::int64_t between = 0;
  for (std::size_t unit = units; unit-- > 0;) {
    if (between < step.sharding.reuse_elements) kept[unit] = true;
    between += 2 * elements[unit];
  }
  const bool joined = step.sharding.one_outer_unit || step.sharding.joins_outer_units;
  if (joined || step.sharding.keeps_outer) kept.front() = true;
  // The head's backward follows its forward at once, but for the loss.
  const Sharding& sharding = step.sharding;
  kept.back() = sharding.copies_out &&
                (sharding.keeps_head || sharding.gathering == Gathering::each_micro_batch);
  return kept;
}

/// Of a frozen tensor in 4 bits the packed weights are gathered, and the scales are everywhere.
std::int64_t less_than_plain(const StageStep& step, const FlatLayout& layout, std::size_t bucket) {
  if (!step.quantised || &layout != &step.frozen) return 0;
  std::int64_t bytes = 0;
  for (const FlatTensor& tensor : layout.tensors) {
    const bool in_bucket = static_cast<std::size_t>(tensor.bucket) == bucket;
    if (!in_bucket || !tensor.tensor.linear) continue;
    bytes += bytes_of(step.sharding.gathered) * tensor.numel -
             packed_bytes(*step.quantised, tensor.numel, 1).value;
  }
  return bytes;
}

void add_gathered(std::vector<UnitWindows>& units, const StageStep& step) {
  const std::int64_t e = bytes_of(step.sharding.gathered);
  const std::vector<bool> kept = kept_units(step, units.size());
  for (const FlatLayout* layout : layouts_of(step)) {
    std::vector<bool> there(layout->buckets.size());  // kept by a unit before
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      for (const std::size_t bucket : layout->read_by[unit]) {
        if (there[bucket]) continue;
        auto& to = kept[unit] ? units[unit].kept : units[unit].gathered;
        to.push_back(e * layout->buckets[bucket].numel - less_than_plain(step, *layout, bucket));
        there[bucket] = kept[unit];
      }
    }
  }
}

/// What the head's unit has is gathered before the embedding, and there as long.
void keep_outer_units(std::vector<UnitWindows>& units) {
  UnitWindows& outer = units.front();
  UnitWindows& head = units.back();
  outer.kept.insert(outer.kept.end(), head.gathered.begin(), head.gathered.end());
  head.gathered.clear();
}

/// What the head's unit has is the embedding's: gathered before it, completed after it. Its
/// gradients are one bucket with the embedding's.
void join_outer_units(std::vector<UnitWindows>& units) {
  keep_outer_units(units);
  UnitWindows& outer = units.front();
  UnitWindows& head = units.back();
  outer.growing += std::exchange(head.growing, 0);
  outer.completed.insert(outer.completed.end(), head.completed.begin(), head.completed.end());
  head.completed.clear();
  BucketBytes all;
  for (const auto& [made, reduced] : outer.completed) {
    all.made += made;
    all.reduced += reduced;
  }
  outer.completed.assign(outer.completed.empty() ? 0 : 1, all);
}

}  // namespace

std::vector<UnitWindows> windows_of(const StageStep& step) {
  std::vector<UnitWindows> units(static_cast<std::size_t>(step.part.head_unit()) + 1);
  for (std::size_t unit = 0; unit < step.growing.size(); ++unit) {
    units[unit].growing = step.growing[unit];
  }
  if (step.sharding.gathers_units()) add_gathered(units, step);
  if (step.sharding.buckets) {
    const std::int64_t made = bytes_of(step.sharding.made);
    const std::int64_t reduced = bytes_of(step.sharding.reduced);
    for (const FlatLayout* layout : layouts_of(step)) {
      if (layout == &step.frozen) continue;
      for (const FlatBucket& bucket : layout->buckets) {
        units[static_cast<std::size_t>(bucket.opened_by)].opened.push_back(made * bucket.numel);
        units[static_cast<std::size_t>(bucket.completed_by)].completed.push_back(
            {made * bucket.numel, reduced * bucket.numel});
      }
    }
  }
  if (step.sharding.keeps_outer) keep_outer_units(units);
  if (step.sharding.one_outer_unit || step.sharding.joins_outer_units) join_outer_units(units);
  return units;
}

}  // namespace planwright::estimator
