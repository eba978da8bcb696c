#include <gtest/gtest.h>

#include <string>

#include "estimator/spec/recompute_plan.h"

namespace planwright {
namespace {

/// "b4 r2 r3+b3 …": rebuild, rebuild and backward, backward.
std::string visits_of(const char* recompute, std::int64_t layers, int chunks = 1) {
  std::string text;
  for (const BackwardVisit& visit :
       backward_visits(parse_recompute(recompute, "", ""), layers, chunks)) {
    const std::string layer = std::to_string(visit.layer);
    text += text.empty() ? "" : " ";
    text += visit.kind == BackwardVisit::Kind::backward  ? "b" + layer
            : visit.kind == BackwardVisit::Kind::rebuild ? "r" + layer
                                                         : "r+b" + layer;
  }
  return text;
}

TEST(BackwardVisits, RebuildASegmentBeforeTheyUseIt) {
  EXPECT_EQ(visits_of("none", 3), "b2 b1 b0");
  EXPECT_EQ(visits_of("full", 3), "r+b2 r+b1 r+b0");
  EXPECT_EQ(visits_of("op", 3), "r+b2 r+b1 r+b0");
  EXPECT_EQ(visits_of("chunk:2", 5), "r+b4 r2 r+b3 b2 r0 r+b1 b0");
  EXPECT_EQ(visits_of("chunk:8", 3), "r0 r1 r+b2 b1 b0");
  EXPECT_EQ(visits_of("alternate:2", 4), "b3 r+b2 b1 r+b0");
  EXPECT_EQ(visits_of("first:2", 4), "b3 b2 r+b1 r+b0");
}

TEST(StageChunks, TheFirstOnesHaveABlockMore) {
  const auto chunk = [](int number) { return stage_chunk(7, 3, number); };
  EXPECT_EQ(chunk(0).first, 0);
  EXPECT_EQ(chunk(0).layers, 3);
  EXPECT_EQ(chunk(1).first, 3);
  EXPECT_EQ(chunk(1).layers, 2);
  EXPECT_EQ(chunk(2).first, 5);
  EXPECT_EQ(chunk(2).layers, 2);
}

TEST(StageChunks, CountTheirBlocksByThemselves) {
  EXPECT_EQ(visits_of("first:1", 4, 2), "b3 r+b2 b1 r+b0");
  EXPECT_EQ(visits_of("chunk:2", 6, 2), "r+b5 r3 r+b4 b3 r+b2 r0 r+b1 b0");
  EXPECT_EQ(recomputed_layers(parse_recompute("first:2", "", ""), 20, 10), 20);
}

TEST(RecomputedLayers, AreThoseOfTheSegments) {
  for (const char* word :
       {"none", "selective", "full", "op", "chunk:2", "alternate:3", "first:2"}) {
    const Recompute recompute = parse_recompute(word, "", "");
    std::int64_t expected = 0;
    for (const RecomputeSegment& segment : recompute_segments(recompute, 7)) {
      if (segment.recomputed) expected += segment.count;
    }
    EXPECT_EQ(recomputed_layers(recompute, 7, 1), expected) << word;
  }
}

}  // namespace
}  // namespace planwright
