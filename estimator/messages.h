#pragma once

#include "estimator/quantities.h"
#include "estimator/spec/flat_layout.h"
#include "estimator/spec/model_part.h"
#include "estimator/spec/recompute_plan.h"
#include "estimator/step_shape.h"

namespace planwright::estimator {

/// What a stage's messages depend on.
struct MessageContext {
  const Problem& problem;
  const Candidate& candidate;
  const ModelPart& part;
  const StepShape& shape;
  const FlatLayout& layout;
  const FlatLayout& frozen;
  const FlatLayout& experts;  ///< those that have buffers of their own
  Transport transport = Transport::gloo;
  bool overlap = true;
  Sharding sharding{};

  /// The turns of the stage's blocks in a micro-batch's backward.
  std::vector<BackwardVisit> visits() const {
    return backward_visits(candidate.recompute, part.layers, candidate.vpp);
  }
};

/// Fills the stage's four lists of messages (docs/runtime.md): between tensor ranks and between
/// stages for every micro-batch, between data ranks for every step, or where they reduce or gather
/// in every micro-batch for each of these.
void add_messages(StageQuantities& stage, const MessageContext& context);

}  // namespace planwright::estimator
