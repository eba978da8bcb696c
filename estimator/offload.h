#pragma once

#include <vector>

#include "estimator/holdings.h"
#include "estimator/liveness.h"
#include "estimator/quantities.h"
#include "estimator/spec/sharding.h"

/// What a plan keeps in its hosts' memory, and what that costs on the way there and back.
namespace planwright::estimator {

struct OffloadedStage {
  const Problem& problem;
  const Candidate& candidate;
  const Holdings& holdings;
  const Layouts& layouts;
  const Sharding& sharding;
};

/// Adds them, and moves the optimizer's work to the host where its states are.
void add_offload(StageQuantities& q, const OffloadedStage& stage);

/// Adds those, which `copies` says how many of there are.
void add_activations(OffloadQuantities& offload, const ActivationOffload& activations,
                     const HostCopies& copies);

/// Of the node whose ranks keep most together.
Bytes fullest_host(const Problem& problem, const Candidate& candidate,
                   const std::vector<StageQuantities>& stages);

}  // namespace planwright::estimator
