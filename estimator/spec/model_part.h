#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/model_spec.h"

/// What one rank holds of a model that is cut into stages and its matrices among tensor ranks.
namespace planwright {

struct ModelPart {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  bool first = true;  ///< holds the embedding
  bool last = true;   ///< holds the final norm and the head
  int tp = 1, tp_rank = 0;
  int ep = 1, etp = 1;  ///< ranks that have experts of their own, that have a part of each
  bool sp = false;
  bool operator==(const ModelPart&) const = default;

  // A unit is what is gathered and reduced together: the embedding, each block, norm and head.
  // Backward completes them from the last to the first.
  std::int64_t embedding_unit() const { return 0; }
  std::int64_t block_unit(std::int64_t layer) const { return layer - first_layer + 1; }
  std::int64_t head_unit() const { return layers + 1; }
};

/// All of it on one rank.
ModelPart whole_model(const ModelSpec& model);

/// Blocks of each stage: as `stages` says, or layers / pp, the first ones taking one more each if
/// pp does not divide them.
std::vector<std::int64_t> stage_layers(const ModelSpec& model, const Candidate& candidate);

/// Parameters of each stage, over its tensor ranks: a tied matrix counts on both its stages.
std::vector<std::int64_t> stage_parameters(const ModelSpec& model, const Candidate& candidate);

ModelPart model_part(const ModelSpec& model, const Candidate& candidate, int rank);

/// A tensor rank's share of a block: heads, key/value heads and MLP width divided by tp.
BlockSpec tensor_share(BlockSpec block, int tp);

/// Rows of the embedding and the head that each tensor rank holds; the last ranks' may go past the
/// vocabulary, as padding.
std::int64_t vocab_share(std::int64_t vocab, int tp);

/// Blocks of this part that the tensors of block `layer` are in: 1, but of those that share theirs
/// the first one's are in all, and the others have none.
std::int64_t blocks_with_tensors(const ModelSpec& model, const ModelPart& part, std::int64_t layer);

/// `count` rows or columns in a row.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const Stretch&) const = default;
};

/// A rank's part of one weight tensor.
struct PartTensor {
  ParameterTensor tensor;           ///< the whole one's name, the part's shape
  std::vector<std::int64_t> whole;  ///< the whole one's shape
  std::vector<Stretch> rows;        ///< of the whole one, in the part's order
  Stretch columns;                  ///< of the whole one; {0, 1} of a vector
  /// Every tensor rank holds the whole tensor and makes a part of its gradient: what is applied to
  /// its own heads, and with sequence parallelism to its own tokens.
  bool partial_gradient = false;
  std::int64_t unit = 0;        ///< whose backward completes its gradient
  std::int64_t first_unit = 0;  ///< whose backward is the first to add to it
};

/// All of a part's tensors in forward order. On the last stage of several, a tied head is the
/// embedding's matrix once more; on a single one it has no tensor of its own.
std::vector<PartTensor> part_tensors(const ModelSpec& model, const ModelPart& part);

/// Whether the first and the last stage hold one matrix, whose gradients are then summed.
bool shares_embedding(const ModelSpec& model, const ModelPart& part);

}  // namespace planwright
