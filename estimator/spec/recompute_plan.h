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

/// A stage's blocks that follow each other in the model: all of them, or those of one virtual
/// stage.
struct StageChunk {
  std::int64_t first = 0;  ///< within the stage
  std::int64_t layers = 0;
};

/// The `number`-th of as many chunks as a stage of so many blocks is cut into. Where they do not
/// divide a model, the first chunks of all stages have a block more, and so have those of each.
StageChunk stage_chunk(std::int64_t layers, int chunks, int number);

/// Of each block, the modules that selective recomputation makes again. The attention core is what
/// is between qkv and the projection; the others are Megatron Core's, as it names them. Source:
/// Megatron-LM megatron/core/transformer/transformer_config.py, recompute_modules @ core_v0.14.0.
struct RecomputedModules {
  bool core_attn = false;
  bool layernorm = false;  ///< norms that are not one kernel with the product behind them
  bool mla_up_proj = false;
  bool mlp = false;  ///< of blocks without experts
  bool moe = false;
  bool moe_act = false;
  bool shared_experts = false;
  auto operator<=>(const RecomputedModules&) const = default;
};

/// Without names, the attention core.
RecomputedModules recomputed_modules(const Recompute& recompute);

/// full, op: each block by itself. chunk:K: K blocks at a time, the last ones fewer. alternate:K:
/// every K-th block from the first on. first:K: the first K.
std::vector<RecomputeSegment> recompute_segments(const Recompute& recompute, std::int64_t layers);

/// How many of a stage's are made again. Each chunk counts its blocks by itself, as each is a
/// module of its own.
std::int64_t recomputed_layers(const Recompute& recompute, std::int64_t layers, int chunks);

/// One block's turn in backward.
struct BackwardVisit {
  enum class Kind {
    rebuild,               ///< makes its state again and goes on to the next
    rebuild_and_backward,  ///< makes its state again and goes back
    backward,              ///< has its state
  };
  Kind kind = Kind::backward;
  std::int64_t layer = 0;  ///< within the stage
  bool operator==(const BackwardVisit&) const = default;
};

/// Of the blocks of one chunk.
std::vector<BackwardVisit> backward_visits(const Recompute& recompute, std::int64_t layers);

/// Of a stage's, from its last chunk to its first.
std::vector<BackwardVisit> backward_visits(const Recompute& recompute, std::int64_t layers,
                                           int chunks);

}  // namespace planwright
