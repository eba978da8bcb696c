#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "estimator/spec/model_spec.h"

/// The parameters as the passes see them: views into the flat buffers. A gradient view is where
/// the gradient is added to. A bias that a layer does not have is an undefined tensor, and so is a
/// weight that is sharded and not gathered.
namespace planwright::worker {

struct NormWeights {
  NormKind kind = NormKind::layer_norm;
  double eps = 0;
  at::Tensor weight, weight_gradient;
  at::Tensor bias, bias_gradient;  ///< layer norm only
  bool trained = true;
};

struct AdapterWeights;

struct LinearWeights {
  at::Tensor weight, weight_gradient;  ///< [out, in]
  at::Tensor bias, bias_gradient;      ///< [out]
  bool trained = true;
  std::vector<AdapterWeights> adapters;  ///< in the order of adapters_of
};

/// Low-rank matrices beside the rows [first, first + out) of another.
struct AdapterWeights {
  LoraTarget target;
  std::int64_t first = 0;
  LinearWeights a, b;  ///< [rank, in], [out, rank]
};

struct EmbeddingWeights {
  bool trained = true;
  at::Tensor tokens, tokens_gradient;        ///< [vocab, hidden]
  at::Tensor positions, positions_gradient;  ///< [max_positions, hidden], learned ones only
};

struct BlockWeights {
  NormWeights norm1, norm2;    ///< the second one only if the block has its own
  NormWeights q_norm, k_norm;  ///< [head_dim], only if the block norms them
  LinearWeights qkv, out;
  LinearWeights up;  ///< gate and up in one matrix if the block is gated
  LinearWeights down;
};

/// Cosine and sine of position × frequency, [seq, head_dim / 2] each, in the accumulation type.
struct RotaryTables {
  at::Tensor cos, sin;
};

/// This rank's part of the model: what the part does not have stays undefined.
struct ModelWeights {
  at::TensorOptions options;  ///< of the weights and the activations
  EmbeddingWeights embedding;
  std::vector<BlockWeights> blocks;
  NormWeights final_norm;
  LinearWeights head;   ///< the token embedding's own views if the head is tied
  RotaryTables rotary;  ///< undefined with learned positions
};

}  // namespace planwright::worker
