#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "probes/worker/drop_mask.h"

/// Dropout without stored masks: whether an element is dropped is a hash of its place in the model
/// and in the endless stream of samples. So every layout of the ranks drops the same ones, and a
/// recomputation does too. CPU tensors only.
namespace planwright::worker {

enum class DropSite { embedding, attention_weights, attention_output, mlp_output };

/// The masks of a micro-batch whose first sample is `first_sample`.
struct Dropout {
  double hidden = 0, attention = 0;  ///< probabilities
  std::uint64_t seed = 0;
  std::int64_t first_sample = 0;

  /// `layer` of the model, 0 for the embedding; `first` counts from the micro-batch's first
  /// element.
  DropMask mask(DropSite site, std::int64_t layer, std::int64_t per_sample,
                std::int64_t first) const;
};

/// y = x / (1 - probability) where it is kept, 0 where it is dropped. y may be x.
void drop(const at::Tensor& x, const DropMask& mask, const at::Tensor& y);

/// x = residual + what `drop` makes of x.
void drop_and_add(const at::Tensor& x, const DropMask& mask, const at::Tensor& residual);

}  // namespace planwright::worker
