#include <gtest/gtest.h>

#include <vector>

#include "estimator/spec/rank_grid.h"

namespace planwright {
namespace {

using Ranks = std::vector<int>;

TEST(RankGrid, CountsTensorRanksFirstThenDataRanksThenStages) {
  const Candidate c{.tp = 2, .pp = 2, .dp = 3};
  EXPECT_EQ(place_of(c, 0), (RankPlace{0, 0, 0}));
  EXPECT_EQ(place_of(c, 5), (RankPlace{1, 2, 0}));
  EXPECT_EQ(place_of(c, 6), (RankPlace{0, 0, 1}));
  for (int rank = 0; rank < c.world(); ++rank) EXPECT_EQ(rank_at(c, place_of(c, rank)), rank);
}

TEST(RankGroups, AreThoseThatShareAllOtherPlaces) {
  const RankGroups groups = groups_of({.tp = 2, .pp = 2, .dp = 3}, 3);  // places 1, 1, 0
  EXPECT_EQ(groups.tensor, (Ranks{2, 3}));
  EXPECT_EQ(groups.shard, (Ranks{3})) << "nothing is sharded";
  EXPECT_EQ(groups.replica, (Ranks{1, 3, 5}));
  EXPECT_EQ(groups.pipeline, (Ranks{3, 9}));
  EXPECT_EQ(groups.embedding, (Ranks{3, 9}));
}

TEST(RankGroups, OfHybridShardsAreNeighboursAndTheirReplicas) {
  const Candidate c{.dp = 6, .zero = 2, .hsdp = 2};
  EXPECT_EQ(shard_ranks(c), 3);
  EXPECT_EQ(groups_of(c, 4).shard, (Ranks{3, 4, 5}));
  EXPECT_EQ(groups_of(c, 4).replica, (Ranks{1, 4}));
}

}  // namespace
}  // namespace planwright
