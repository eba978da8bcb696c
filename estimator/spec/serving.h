#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/spec/units.h"
#include "estimator/spec/weight_format.h"
#include "estimator/spec/words.h"

/// Inference: what a server keeps of a model and of the sequences that it continues.
namespace planwright {

enum class CacheType { fp32, bf16, fp16, fp8, int8, int4 };
template <>
struct Words<CacheType> {
  static constexpr std::array<std::string_view, 6> kWords{"fp32", "bf16", "fp16",
                                                          "fp8",  "int8", "int4"};
};
constexpr std::int64_t bits_of(CacheType type) {
  return std::array<std::int64_t, 6>{32, 16, 16, 8, 8, 4}[static_cast<std::size_t>(type)];
}
/// Scale and zero point of a token's key head or value head, 16 bits each, where the type is whole
/// numbers. Source: InternLM/lmdeploy docs/en/quantization/kv_quant.md, per head and per token.
constexpr std::int64_t scale_bits_of(CacheType type) {
  return type == CacheType::int8 || type == CacheType::int4 ? 32 : 0;
}

/// How a server keeps weights and caches; the context and the sequences at once are the workload's.
struct Serving {
  /// Of the linear layers; absent: as the checkpoint has them, or in the arithmetic's type.
  std::optional<WeightFormat> weights;
  std::optional<CacheType> cache;  ///< absent: the arithmetic's type
  /// Tokens of a page: a sequence takes whole ones. Source: vLLM's default block size.
  std::int64_t page = 16;
  /// Tokens that are read at once before a sequence is continued. Source: vLLM's default of
  /// max_num_batched_tokens with chunked prefill.
  std::int64_t prefill = 2048;
  bool operator==(const Serving&) const = default;
};

/// What an estimate says of a server beyond the ledger. Bytes are of the stage with the largest
/// peak, of one rank.
struct ServingEstimate {
  Bytes weights;                ///< scales and indices included
  std::string weight_format{};  ///< of the linear layers
  Bytes cache_per_token;        ///< of one sequence, while no window is full; scales included
  Bytes cache_per_sequence;  ///< at the context asked for, in whole pages; Mamba's states included
  Bytes prefill, decode;     ///< activations and logits of either
  std::int64_t sequences = 0;        ///< per replica
  std::int64_t most_sequences = 0;   ///< that fit at this context
  std::int64_t longest_context = 0;  ///< that fits for as many sequences, at most max_positions
  bool operator==(const ServingEstimate&) const = default;
};

}  // namespace planwright
