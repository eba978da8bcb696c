#include "estimator/offload.h"

#include <algorithm>

#include "estimator/spec/rank_grid.h"

namespace planwright::estimator {
namespace {

/// Of a rank's part of what is trained, in elements.
double trained_elements(const OffloadedStage& s) {
  return static_cast<double>(s.layouts.trained.numel) / shard_ranks(s.candidate);
}

/// How often a micro-batch takes them to the device: to be gathered forwards, and once more
/// backwards if they have been given up in between.
double gatherings(const Sharding& sharding) {
  if (sharding.gathering == Gathering::each_use) return 2;
  return sharding.gathering == Gathering::each_micro_batch ? 1 : 0;
}

/// Weights that stay on the device come back after each step.
double returned_bytes(const OffloadedStage& s) {
  if (s.candidate.offload.params || !s.candidate.offload.optimizer) return 0;
  return trained_elements(s) * static_cast<double>(bytes_of(s.problem.workload.recipe.compute));
}

double weight_bytes(const OffloadedStage& s) {
  const Bytes weights = s.holdings.weights_off_device(s.layouts);
  return gatherings(s.sharding) * static_cast<double>(weights.value);
}

/// Widened on the device.
double gradient_bytes(const OffloadedStage& s) {
  if (!s.candidate.offload.optimizer) return 0;
  const PrecisionRecipe& recipe = s.problem.workload.recipe;
  const DType updated = recipe.master.value_or(recipe.storage);
  return trained_elements(s) * static_cast<double>(bytes_of(updated));
}

}  // namespace

void add_offload(StageQuantities& q, const OffloadedStage& stage) {
  if (stage.candidate.offload == Offload{}) return;
  q.offload.held = stage.holdings.host_bytes(stage.layouts);
  q.offload.moved = weight_bytes(stage);
  q.offload.moved_each_step = returned_bytes(stage);
  const double gradients = gradient_bytes(stage);
  (stage.sharding.each_micro_batch ? q.offload.moved : q.offload.moved_each_step) += gradients;
  if (!stage.candidate.offload.optimizer) return;
  q.offload.optimizer_bytes = q.optimizer_bytes;
  q.optimizer_bytes = q.optimizer_launches = 0;
}

void add_activations(OffloadQuantities& offload, const ActivationOffload& activations,
                     const HostCopies& copies) {
  offload.held += Bytes{copies.most};
  const auto moved = static_cast<double>(copies.sent + copies.fetched);
  (activations.beside ? offload.moved : offload.waited) += moved;
}

Bytes fullest_host(const Problem& problem, const Candidate& candidate,
                   const std::vector<StageQuantities>& stages) {
  const bool none = std::none_of(stages.begin(), stages.end(),
                                 [](const StageQuantities& s) { return s.offload.any(); });
  if (none) return {};
  const auto world = static_cast<int>(candidate.world());
  const int per_node = std::max(1, problem.cluster.per_node);
  Bytes fullest;
  for (int first = 0; first < world; first += per_node) {
    Bytes held;
    for (int rank = first; rank < std::min(world, first + per_node); ++rank) {
      held += stages[static_cast<std::size_t>(place_of(candidate, rank).pp)].offload.held;
    }
    fullest = std::max(fullest, held);
  }
  return fullest;
}

}  // namespace planwright::estimator
