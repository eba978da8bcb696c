#include "estimator/holdings.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "estimator/devices.h"
#include "estimator/page_locked.h"
#include "estimator/spec/factored_moments.h"
#include "estimator/spec/rank_grid.h"
#include "estimator/step_shape.h"
#include "estimator/te_fp8.h"

namespace planwright::estimator {
namespace {

Home home_of(const Holding& holding, const Candidate& candidate) {
  return holding.home == nullptr ? Home::device : holding.home(candidate);
}

ShardedBy sharded_by(const Holding& holding, const Candidate& candidate) {
  return holding.sharded_by == nullptr ? ShardedBy::nothing : holding.sharded_by(candidate);
}

std::int64_t divided(std::int64_t elements, std::int64_t ranks) {
  return (elements + ranks - 1) / ranks;
}

/// Of one part of a tensor, on the rank that has most of it.
std::int64_t part_elements(const Stretch& part, std::int64_t columns, ShardedBy by,
                           std::int64_t ranks) {
  if (by == ShardedBy::each_row) return divided(part.count, ranks) * columns;
  if (by == ShardedBy::each_tensor) return divided(part.count * columns, ranks);
  return part.count * columns;
}

/// Calls `use(tensor, elements)` for each tensor, part by part, that the holding is of. Shards are
/// over `ranks`.
template <class Use>
void for_each_part(const Holding& holding, const Candidate& candidate, const FlatLayout& layout,
                   int ranks, const Use& use) {
  const ShardedBy by = sharded_by(holding, candidate);
  for (const FlatTensor& tensor : layout.tensors) {
    if (holding.takes != nullptr && !holding.takes(tensor)) continue;
    for (const Stretch& part : tensor.rows) {
      use(tensor, part_elements(part, tensor.columns.count, by, ranks));
    }
  }
}

template <class Use>
void for_each_part(const Holding& holding, const Candidate& candidate, const FlatLayout& layout,
                   const Use& use) {
  for_each_part(holding, candidate, layout, shard_ranks(candidate), use);
}

/// Experts that are apart are spread over ranks of their own.
std::int64_t experts_apart(const Holding& holding, const Candidate& candidate,
                           const FlatLayout& experts) {
  std::int64_t elements = 0;
  for_each_part(holding, candidate, experts, expert_shard_ranks(candidate),
                [&](const FlatTensor&, std::int64_t each) { elements += each; });
  const bool cut = sharded_by(holding, candidate) == ShardedBy::data_ranks;
  return cut ? divided(elements, expert_shard_ranks(candidate)) : elements;
}

/// Of the shards of what is cut as a whole.
std::int64_t in_a_row(std::int64_t elements, const Holding& holding, const Candidate& candidate) {
  const bool cut = sharded_by(holding, candidate) == ShardedBy::data_ranks;
  return cut ? divided(elements, shard_ranks(candidate)) : elements;
}

std::int64_t unpadded(const Holding& holding, const Candidate& candidate,
                      const FlatLayout& layout) {
  std::int64_t elements = 0;
  for_each_part(holding, candidate, layout,
                [&](const FlatTensor&, std::int64_t each) { elements += each; });
  return in_a_row(elements, holding, candidate);
}

std::int64_t tensors_of(const Holding& holding, const Candidate& candidate,
                        const FlatLayout& layout) {
  std::int64_t tensors = 0;
  for_each_part(holding, candidate, layout, [&](const FlatTensor&, std::int64_t) { ++tensors; });
  return tensors;
}

std::int64_t largest_of(const Holding& holding, const Candidate& candidate,
                        const FlatLayout& layout) {
  std::int64_t largest = 0;
  for_each_part(holding, candidate, layout,
                [&](const FlatTensor&, std::int64_t each) { largest = std::max(largest, each); });
  return in_a_row(largest, holding, candidate);
}

std::int64_t largest_unit(const Holding& holding, const Candidate& candidate,
                          const Layouts& layouts) {
  std::map<std::int64_t, std::int64_t> units;
  for (const FlatLayout* layout : {&layouts.trained, &layouts.frozen}) {
    for_each_part(holding, candidate, *layout, [&](const FlatTensor& tensor, std::int64_t each) {
      units[tensor.first_unit] += each;
    });
  }
  std::int64_t largest = 0;
  for (const auto& [unit, elements] : units) largest = std::max(largest, elements);
  return in_a_row(largest, holding, candidate);
}

std::int64_t padded(const Holding& holding, const Candidate& candidate, const FlatLayout& layout) {
  const bool sharded = sharded_by(holding, candidate) == ShardedBy::data_ranks;
  return sharded ? layout.shard_numel() : layout.numel;
}

/// Of experts that are stacked each is a matrix of its own.
std::int64_t distinct_matrices(const Layouts& layouts, int ep) {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (const FlatLayout* layout : {&layouts.trained, &layouts.experts}) {
    for (const FlatTensor& tensor : layout->tensors) {
      if (!tensor.tensor.linear) continue;
      const std::int64_t stacked = std::max<std::int64_t>(1, tensor.tensor.experts / ep);
      shapes.emplace(tensor.numel / tensor.columns.count / stacked, tensor.columns.count);
    }
  }
  std::int64_t elements = 0;
  for (const auto& [rows, columns] : shapes) elements += rows * columns;
  return elements;
}

/// Experts that are stacked are copied one by one.
std::int64_t narrow_copies(const Problem& problem, const TargetTraits& traits,
                           const Candidate& candidate, const Layouts& layouts) {
  const Fp8Recipe recipe = te_modules(problem, traits, candidate).fp8;
  if (recipe == Fp8Recipe::none) return 0;
  const tape::Fp8 fp8 = tape::fp8_of(recipe, compute_capability(problem.cluster.device));
  std::int64_t bytes = 0;
  for (const FlatLayout* layout : {&layouts.trained, &layouts.experts}) {
    for (const FlatTensor& tensor : layout->tensors) {
      if (!tensor.tensor.linear) continue;
      const std::int64_t columns = tensor.columns.count;
      const std::int64_t stacked = std::max<std::int64_t>(1, tensor.tensor.experts / candidate.ep);
      bytes += stacked * tape::weight_bytes(fp8, {tensor.numel / columns / stacked, columns});
    }
  }
  return bytes;
}

/// Bytes of the frozen linear matrices, or of those tensors that the holding takes: packed and
/// sharded as it says, or all else that their format has.
std::int64_t quantised_bytes(const Holding& holding, const Problem& problem,
                             const Candidate& candidate, const FlatLayout& frozen) {
  const auto& format = problem.workload.serving.weights;
  std::int64_t bytes = 0;
  for (const FlatTensor& tensor : frozen.tensors) {
    const bool packs = holding.takes == nullptr ? tensor.tensor.linear : holding.takes(tensor);
    if (!format || !packs) continue;
    for (const Stretch& part : tensor.rows) {
      const std::int64_t columns = tensor.columns.count;
      const std::int64_t packed = packed_bytes(*format, part.count, columns).value;
      bytes += holding.of == HoldingOf::quantised
                   ? packed
                   : stored_bytes(*format, part.count, columns).value - packed;
    }
  }
  const bool cut = sharded_by(holding, candidate) != ShardedBy::nothing;
  return cut ? divided(bytes, shard_ranks(candidate)) : bytes;
}

std::int64_t rope_elements(const Problem& problem) {
  const ModelSpec& model = problem.model;
  const bool rotary = model.positions == Positions::rotary;
  return rotary ? problem.workload.seq * model.runs.front().block.head_dim : 0;
}

std::int64_t elements_of(const Holding& holding, const Problem& problem, const TargetTraits& traits,
                         const Candidate& candidate, const Layouts& layouts) {
  switch (holding.of) {
    case HoldingOf::flat_parameters:
      return padded(holding, candidate, layouts.trained) +
             padded(holding, candidate, layouts.experts);
    case HoldingOf::frozen_parameters:
      return padded(holding, candidate, layouts.frozen);
    case HoldingOf::trained:
      return unpadded(holding, candidate, layouts.trained) +
             experts_apart(holding, candidate, layouts.experts);
    case HoldingOf::frozen:
      return unpadded(holding, candidate, layouts.frozen);
    case HoldingOf::quantised:
    case HoldingOf::quantisation:
      return quantised_bytes(holding, problem, candidate, layouts.frozen);
    case HoldingOf::trained_tensors:
      return tensors_of(holding, candidate, layouts.trained) +
             tensors_of(holding, candidate, layouts.experts);
    case HoldingOf::largest_tensor:
      return largest_of(holding, candidate, layouts.trained);
    case HoldingOf::largest_unit:
      return largest_unit(holding, candidate, layouts);
    case HoldingOf::bucket:
      return traits.bucket_elements(candidate);
    case HoldingOf::filled_bucket:
      return std::min(traits.bucket_elements(candidate),
                      unpadded(holding, candidate, layouts.trained));
    case HoldingOf::rope_table:
      return rope_elements(problem);
    case HoldingOf::step_counters:
      return 1;
    case HoldingOf::distinct_matrices:
      return distinct_matrices(layouts, candidate.ep);
    case HoldingOf::narrow_copies:
      return narrow_copies(problem, traits, candidate, layouts);
    case HoldingOf::factored_moments:
      return factored_elements(layouts.trained);
  }
  throw std::logic_error("elements_of: unknown holding");
}

/// Of an element of the holding.
std::int64_t bytes_each(const Holding& holding, const Problem& problem) {
  return holding.copies * holding.bytes_each(problem.workload.recipe);
}

/// Tensors that are page-locked one by one.
Bytes page_locked_parts(const Holding& holding, const Problem& problem, const Candidate& candidate,
                        const FlatLayout& layout) {
  const std::int64_t each = bytes_each(holding, problem);
  std::int64_t bytes = 0;
  for_each_part(holding, candidate, layout, [&](const FlatTensor&, std::int64_t elements) {
    bytes += page_locked(elements * each);
  });
  return Bytes{bytes};
}

/// `bytes`: of the holding.
Bytes on_host(const Holding& holding, Bytes bytes, const Problem& problem,
              const Candidate& candidate, const Layouts& layouts) {
  if (!holding.pinned) return bytes;
  if (sharded_by(holding, candidate) != ShardedBy::each_row) {
    return Bytes{page_locked(bytes.value)};
  }
  const bool frozen = holding.of == HoldingOf::frozen;
  return page_locked_parts(holding, problem, candidate, frozen ? layouts.frozen : layouts.trained);
}

bool lives_in(const Holding& holding, Phase phase) {
  const Phase from = holding.grows ? Phase::reduce : holding.from;
  return from <= phase && phase <= holding.to;
}

}  // namespace

Holdings::Holdings(const Problem& problem, const TargetTraits& traits, const Candidate& candidate)
    : problem_(problem), traits_(traits), candidate_(candidate) {
  rows_.reserve(traits.holdings.size());
  for (const Holding& holding : traits.holdings) {
    if (!holding.when || holding.when(problem, candidate)) rows_.push_back(&holding);
  }
}

Bytes Holdings::bytes_of(const Holding& holding, const Layouts& layouts) const {
  std::int64_t elements = elements_of(holding, problem_, traits_, candidate_, layouts);
  if (holding.at_most > 0) elements = std::min(elements, holding.at_most);
  return Bytes{elements * bytes_each(holding, problem_)};
}

std::array<Ledger, kWordCount<Phase>> Holdings::held_bytes(const Layouts& layouts) const {
  std::array<Ledger, kWordCount<Phase>> held{};
  for (const Holding* holding : rows_) {
    if (holding->with_gradients || home_of(*holding, candidate_) != Home::device) continue;
    const Bytes bytes = bytes_of(*holding, layouts);
    for (std::size_t phase = 0; phase < held.size(); ++phase) {
      if (lives_in(*holding, static_cast<Phase>(phase))) held[phase][holding->account] += bytes;
    }
  }
  return held;
}

bool Holdings::regrows() const {
  return std::any_of(rows_.begin(), rows_.end(), [](const Holding* holding) {
    return holding->grows && holding->to == Phase::backward;
  });
}

Ledger Holdings::bytes_with_gradients(const Layouts& layouts) const {
  Ledger bytes;
  for (const Holding* holding : rows_) {
    if (holding->with_gradients) bytes[holding->account] += bytes_of(*holding, layouts);
  }
  return bytes;
}

Bytes Holdings::host_bytes(const Layouts& layouts) const {
  std::array<Bytes, kWordCount<Phase>> held{};
  for (const Holding* holding : rows_) {
    if (home_of(*holding, candidate_) != Home::host) continue;
    const Bytes bytes =
        on_host(*holding, bytes_of(*holding, layouts), problem_, candidate_, layouts);
    for (std::size_t phase = 0; phase < held.size(); ++phase) {
      if (lives_in(*holding, static_cast<Phase>(phase))) held[phase] += bytes;
    }
  }
  return *std::max_element(held.begin(), held.end());
}

Bytes Holdings::weights_off_device(const Layouts& layouts) const {
  Bytes bytes;
  for (const Holding* holding : rows_) {
    const bool away = home_of(*holding, candidate_) != Home::device;
    if (away && holding->account == Account::parameters) bytes += bytes_of(*holding, layouts);
  }
  return bytes;
}

std::vector<std::int64_t> Holdings::growing_bytes(const FlatLayout& trained, int ranks) const {
  std::vector<std::int64_t> units;
  for (const Holding* holding : rows_) {
    if (!holding->grows || home_of(*holding, candidate_) != Home::device) continue;
    std::vector<std::int64_t> elements(trained.read_by.size());
    for_each_part(*holding, candidate_, trained, ranks,
                  [&](const FlatTensor& tensor, std::int64_t each) {
                    elements[static_cast<std::size_t>(tensor.first_unit)] += each;
                  });
    units.resize(elements.size());
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      units[unit] +=
          in_a_row(elements[unit], *holding, candidate_) * bytes_each(*holding, problem_);
    }
  }
  return units;
}

std::vector<std::int64_t> Holdings::growing_bytes(const FlatLayout& trained) const {
  return growing_bytes(trained, shard_ranks(candidate_));
}

}  // namespace planwright::estimator
