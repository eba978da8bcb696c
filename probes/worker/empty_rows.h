#pragma once

#include <ATen/ops/empty.h>

#include "probes/worker/kernels.h"
#include "probes/worker/weights.h"

/// New storage in the shapes of activations.
namespace planwright::worker {

inline at::Tensor empty_rows(const at::Tensor& like, std::int64_t width) {
  return at::empty({like.size(0), width}, like.options());
}

/// Statistics of a norm over `rows` rows of the type of `like`.
inline at::Tensor empty_stats(const NormWeights& norm, std::int64_t rows, const at::Tensor& like) {
  const std::int64_t kinds = norm.kind == NormKind::layer_norm ? 2 : 1;
  return at::empty({kinds, rows}, like.options().dtype(accumulation_type(like.scalar_type())));
}

}  // namespace planwright::worker
