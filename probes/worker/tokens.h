#pragma once

#include <cstdint>

#include "probes/worker/transformer.h"

namespace planwright::worker {

/// A well-mixed 64-bit number for each (stream, index). Source of the mixing: splitmix64's
/// finaliser, Steele, Lea, Flood (2014).
constexpr std::uint64_t counter_hash(std::uint64_t stream, std::uint64_t index) {
  std::uint64_t x = stream + (index + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

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
