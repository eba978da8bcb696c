#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/model_part.h"
#include "estimator/spec/problem.h"

/// What one rank of a server holds: weights, the caches of its sequences, and what a pass over
/// them needs besides. Ranks of a stage are alike.
namespace planwright::estimator {

/// A stage of a server, cut among tensor ranks. More tensor ranks than key/value heads hold copies
/// of them.
struct ServingPart {
  ModelSpec model;  ///< with as many key/value heads as there are copies
  ModelPart part;
  Serving serving;
  DType storage = DType::bf16;  ///< of what the weights' format leaves alone
};
ServingPart serving_part(const Problem& problem, const Candidate& candidate, int stage);

/// What a linear layer's weights are stored as: by --quant, or as the checkpoint has them; nullptr:
/// in the arithmetic's type.
const WeightFormat* weight_format_of(const Problem& problem);

/// `tensors` are part_tensors of it.
Bytes weight_bytes(const ServingPart& part, const std::vector<PartTensor>& tensors);
Bytes weight_bytes(const ServingPart& part);

/// Keys and values of `tokens` tokens of one sequence, in whole pages; a windowed layer keeps a
/// window of them. A Mamba layer keeps its state whatever their number.
Bytes cache_bytes(const ServingPart& part, std::int64_t tokens);
/// Of one more token while no window is full; what whole pages add is left out.
Bytes cache_bytes_per_token(const ServingPart& part);

/// The most that a pass over `tokens` tokens needs besides, of which `rows` get logits.
struct PassBytes {
  Bytes activations, logits;
};
PassBytes pass_bytes(const ServingPart& part, std::int64_t tokens, std::int64_t rows);

}  // namespace planwright::estimator
