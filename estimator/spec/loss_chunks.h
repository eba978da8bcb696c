#pragma once

#include <algorithm>
#include <cstdint>

#include "estimator/spec/candidate.h"

namespace planwright {

/// The rows whose logits are there at once: `count` chunks of `rows`, the last of which may have
/// fewer.
struct LossChunks {
  std::int64_t rows = 0;
  std::int64_t count = 0;
  bool operator==(const LossChunks&) const = default;
};

/// `--loss chunked` cuts a micro-batch's rows into this many. Source: torchtune's
/// CEWithChunkedOutputLoss, num_output_chunks.
constexpr std::int64_t kLossChunks = 8;

/// Rows that the fused loss of the composed kernels makes wide at a time.
constexpr std::int64_t kFusedRows = 256;

inline LossChunks loss_chunks(LossKernel loss, std::int64_t rows) {
  const std::int64_t most = loss == LossKernel::chunked ? kLossChunks : 1;
  const std::int64_t each = std::max<std::int64_t>(1, (rows + most - 1) / most);
  return {each, (rows + each - 1) / each};
}

/// Whether logits of a narrow type are copied to the type that the loss is computed in.
constexpr bool upcasts_logits(LossKernel loss) { return loss != LossKernel::fused; }

}  // namespace planwright
