#include "probes/worker/job_groups.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "estimator/spec/rank_grid.h"

namespace planwright::worker {
namespace {

/// `group_of` gives the group of some ranks.
template <class GroupOf>
void fill(JobGroups& groups, const Candidate& candidate, int rank, const GroupOf& group_of) {
  const RankGroups ranks = groups_of(candidate, rank);
  groups.tensor = group_of(ranks.tensor);
  groups.shard = group_of(ranks.shard);
  groups.replica = group_of(ranks.replica);
  groups.pipeline = group_of(ranks.pipeline);
  const auto& ends = ranks.embedding;
  const bool at_an_end = std::find(ends.begin(), ends.end(), rank) != ends.end();
  if (at_an_end && ends.size() > 1) groups.embedding = group_of(ends);
}

}  // namespace

JobGroups real_groups(const Candidate& candidate, Collectives& collectives) {
  JobGroups groups;
  fill(groups, candidate, collectives.rank(),
       [&](const std::vector<int>& ranks) { return &collectives.group(ranks); });
  return groups;
}

JobGroups stand_in_groups(const Candidate& candidate, int rank) {
  JobGroups groups;
  fill(groups, candidate, rank, [&](const std::vector<int>& ranks) {
    const auto at = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    groups.stand_ins.push_back(
        std::make_unique<Group>(static_cast<int>(at), static_cast<int>(ranks.size()), nullptr));
    return groups.stand_ins.back().get();
  });
  return groups;
}

}  // namespace planwright::worker
