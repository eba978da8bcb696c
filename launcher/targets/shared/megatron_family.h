#pragma once

#include <cstdint>
#include <optional>

#include "estimator/spec/target_traits.h"

/// What Megatron-LM and its descendants have in common.
namespace planwright::targets {

/// Weights in the type that is computed in, fp32 masters of 16-bit ones; gradients of bf16 are
/// summed and reduced in fp32, those of fp16 as they are made. Nullopt for fp64 and fp8.
std::optional<PrecisionRecipe> megatron_recipe(Precision precision);

/// Rows of the vocabulary: a multiple of 128 on each tensor rank.
std::int64_t megatron_padded_vocab(std::int64_t vocab, const Candidate& candidate);

}  // namespace planwright::targets
