#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"

/// Which of a stage's blocks are made again in backward, and in which order it then goes.
namespace planwright {

/// Blocks in a row. Recomputed, only the first one's input is kept from forward.
struct RecomputeSegment {
  std::int64_t first = 0;
  std::int64_t count = 1;
  bool recomputed = false;
  bool operator==(const RecomputeSegment&) const = default;
};

/// Whether every block makes its attention core again: what is between qkv and the projection.
bool recomputes_core(const Recompute& recompute);

/// full, op: each block by itself. chunk:K: K blocks at a time, the last ones fewer. alternate:K:
/// every K-th block from the first on. first:K: the first K.
std::vector<RecomputeSegment> recompute_segments(const Recompute& recompute, std::int64_t layers);

/// How many of them are made again.
std::int64_t recomputed_layers(const Recompute& recompute, std::int64_t layers);

/// One block's turn in backward.
struct BackwardVisit {
  enum class Kind {
    rebuild,               ///< makes its state again and goes on to the next
    rebuild_and_backward,  ///< makes its state again, without its output, and goes back
    backward,              ///< has its state
  };
  Kind kind = Kind::backward;
  std::int64_t layer = 0;  ///< within the stage
  bool operator==(const BackwardVisit&) const = default;
};

std::vector<BackwardVisit> backward_visits(const Recompute& recompute, std::int64_t layers);

}  // namespace planwright
