#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/model_spec.h"

namespace planwright::targets::nanotron {

/// What a stage is given of the model's parts, which are the embedding, the blocks, the final norm,
/// the head, the cast of the logits and the loss.
struct StageParts {
  std::int64_t blocks = 0;
  std::int64_t others = 0;
  bool operator==(const StageParts&) const = default;
};

/// Parts go to a stage until their cost is more than its share of the whole: a block costs the
/// weights of its matrices as with as many key/value heads as heads, the head its weights, the
/// rest nothing. Source: huggingface/nanotron src/nanotron/models/base.py, build_model, and
/// models/llama.py, get_block_compute_costs @ 2411b02.
std::vector<StageParts> split(const ModelSpec& model, int stages);

/// The blocks alone.
std::vector<std::int64_t> stage_layers(const ModelSpec& model, int stages);

}  // namespace planwright::targets::nanotron
