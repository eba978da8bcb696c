#pragma once

#include <memory>
#include <vector>

#include "estimator/spec/candidate.h"
#include "probes/worker/collectives.h"

namespace planwright::worker {

/// The groups of one rank's job (spec/rank_grid.h).
struct JobGroups {
  Group* tensor = nullptr;
  Group* shard = nullptr;
  Group* replica = nullptr;
  Group* pipeline = nullptr;
  Group* embedding = nullptr;  ///< null unless this stage is the first or the last of several
  std::vector<std::unique_ptr<Group>> stand_ins;
};

/// Those of `collectives`, formed if they are not there yet: for every rank to call.
JobGroups real_groups(const Candidate& candidate, Collectives& collectives);

/// Stand-ins for rank `rank` of the candidate's world.
JobGroups stand_in_groups(const Candidate& candidate, int rank);

}  // namespace planwright::worker
