#include "estimator/parties.h"

#include <gtest/gtest.h>

namespace planwright::estimator {
namespace {

/// Nodes of 8 devices: 400 GB/s and 1 microsecond inside, 50 GB/s and 5 microseconds between.
ClusterSpec nodes(int count) {
  ClusterSpec cluster;
  cluster.per_node = 8;
  cluster.nodes = count;
  cluster.links = {{"inside", BytesPerSecond{4e11}, Seconds{1e-6}, 8},
                   {"between", BytesPerSecond{5e10}, Seconds{5e-6}, 8 * count}};
  return cluster;
}

struct RingCase {
  const char* what;
  int ranks, stride;
  int link;
  double hops, lanes;
};

/// Hops are counted in answers of the outermost link, of which an inner one is a fifth.
TEST(Parties, RingsLeaveANodeByAllItsCards) {
  const RingCase cases[] = {
      {"inside a node", 8, 1, 0, 7, 1},
      {"whole nodes: 3 hops between them, 28 inside", 32, 1, 1, 3 + 28 / 5.0, 8},
      {"one rank of each node", 4, 8, 1, 3, 1},
      {"two ranks of each node", 8, 4, 1, 3 + 4 / 5.0, 2},
  };
  for (const RingCase& each : cases) {
    const Party party = party_of(nodes(4), Transport::nccl, each.ranks, each.stride);
    EXPECT_EQ(party.link, each.link) << each.what;
    EXPECT_DOUBLE_EQ(party.ring.hops, each.hops) << each.what;
    EXPECT_DOUBLE_EQ(party.ring.lanes, each.lanes) << each.what;
  }
}

TEST(Parties, RingsAreNoFasterThanTheLinksInside) {
  ClusterSpec cluster = nodes(2);
  cluster.links.front().bandwidth = BytesPerSecond{1e11};
  EXPECT_DOUBLE_EQ(party_of(cluster, Transport::nccl, 16, 1).ring.lanes, 2);
}

/// Of what a rank sends to 15 others, 8 parts go by its card, and 7 inside, which is faster.
TEST(Parties, AnExchangeSendsByTheCardWhatLeavesTheNode) {
  const Party party = party_of(nodes(2), Transport::nccl, 16, 1);
  EXPECT_DOUBLE_EQ(party.exchange.lanes, 15 / 8.0);
  EXPECT_DOUBLE_EQ(party.exchange.hops, 1);
}

/// Its one ring is as slow as the slowest of its steps.
TEST(Parties, GlooHasOneRing) {
  const Party party = party_of(nodes(2), Transport::gloo, 16, 1);
  EXPECT_DOUBLE_EQ(party.ring.lanes, 1);
  EXPECT_DOUBLE_EQ(party.ring.hops, 15);
}

}  // namespace
}  // namespace planwright::estimator
