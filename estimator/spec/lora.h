#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/words.h"

/// Low-rank matrices that are trained beside a block's frozen ones: y = W x + B (A x) with A
/// [rank, in] and B [out, rank]. Source: Hu et al. (2021), arXiv:2106.09685, section 4.1.
namespace planwright {

struct BlockSpec;

/// What gets one; the names of Hugging Face's modules. q, k and v are parts of one fused matrix
/// here, and so are gate and up: an adapter may be of a part, or of the whole.
enum class LoraTarget {
  q_proj,
  k_proj,
  v_proj,
  qkv_proj,
  o_proj,
  gate_proj,
  up_proj,
  gate_up_proj,
  down_proj
};
template <>
struct Words<LoraTarget> {
  static constexpr std::array<std::string_view, 9> kWords{"q_proj",   "k_proj",       "v_proj",
                                                          "qkv_proj", "o_proj",       "gate_proj",
                                                          "up_proj",  "gate_up_proj", "down_proj"};
};

struct LoraSpec {
  std::int64_t rank = 0;  ///< 0: there is none, and every weight is trained
  std::vector<LoraTarget> targets;
  bool operator==(const LoraSpec&) const = default;

  bool freezes() const { return rank > 0; }
};

/// A block's matrices, as they are stored.
enum class BlockMatrix { qkv, out, up, down };
inline constexpr std::array kBlockMatrices{BlockMatrix::qkv, BlockMatrix::out, BlockMatrix::up,
                                           BlockMatrix::down};

/// One target's place: rows [first, first + outputs) of a matrix with `inputs` columns.
struct Adapter {
  LoraTarget target;
  std::int64_t first = 0;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

/// Those of one of the block's matrices, in the order of LoraTarget. The block may be a tensor
/// rank's share.
std::vector<Adapter> adapters_of(const LoraSpec& lora, const BlockSpec& block, std::int64_t hidden,
                                 BlockMatrix matrix);

/// Every matrix of the block by itself: what `all-linear` means.
std::vector<LoraTarget> all_linear(const BlockSpec& block);

/// Why the block cannot have these targets; empty if it can.
std::string broken_targets(const LoraSpec& lora, const BlockSpec& block);

}  // namespace planwright
