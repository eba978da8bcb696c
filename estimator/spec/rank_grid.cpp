#include "estimator/spec/rank_grid.h"

namespace planwright {

RankPlace place_of(const Candidate& c, int rank) {
  const int data = c.data_ranks();
  return {.tp = rank % c.tp, .dp = rank / c.tp % data, .pp = rank / c.tp / data};
}

int rank_at(const Candidate& c, const RankPlace& place) {
  return (place.pp * c.data_ranks() + place.dp) * c.tp + place.tp;
}

int shard_ranks(const Candidate& c) { return c.zero == 0 ? 1 : c.data_ranks() / c.hsdp; }

int expert_shard_ranks(const Candidate& c) {
  return c.zero == 0 ? 1 : c.expert_data_ranks() / c.hsdp;
}

RankGroups groups_of(const Candidate& c, int rank) {
  const RankPlace here = place_of(c, rank);
  const int shards = shard_ranks(c);
  RankGroups groups;
  for (int tp = 0; tp < c.tp; ++tp) groups.tensor.push_back(rank_at(c, {tp, here.dp, here.pp}));
  for (int dp = 0; dp < c.data_ranks(); ++dp) {
    const int other = rank_at(c, {here.tp, dp, here.pp});
    if (dp / shards == here.dp / shards) groups.shard.push_back(other);
    if (dp % shards == here.dp % shards) groups.replica.push_back(other);
  }
  for (int pp = 0; pp < c.pp; ++pp) groups.pipeline.push_back(rank_at(c, {here.tp, here.dp, pp}));
  groups.embedding = {groups.pipeline.front()};
  if (c.pp > 1) groups.embedding.push_back(groups.pipeline.back());
  return groups;
}

}  // namespace planwright
