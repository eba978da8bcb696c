#pragma once

#include <cstdint>

#include "probes/worker/counter_hash.h"
#include "probes/worker/transformer.h"

namespace planwright::worker {

/// Token `position` of the sample that is `sample`-th in the endless stream of `seed`.
constexpr std::int64_t token(std::uint64_t seed, std::int64_t sample, std::int64_t position,
                             std::int64_t vocab) {
  const std::uint64_t of_sample = counter_hash(seed, static_cast<std::uint64_t>(sample));
  return static_cast<std::int64_t>(counter_hash(of_sample, static_cast<std::uint64_t>(position)) %
                                   static_cast<std::uint64_t>(vocab));
}

/// Which of a micro-batch's tensors a stage reads.
struct TokenEnds {
  bool ids = true, targets = true;
};

/// Samples [first, first + batch): ids are a sample's tokens [0, seq), targets [1, seq + 1).
MicroBatch micro_batch(std::uint64_t seed, std::int64_t first, std::int64_t batch, std::int64_t seq,
                       std::int64_t vocab, at::Device device, TokenEnds ends = {});

}  // namespace planwright::worker
