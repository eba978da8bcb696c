#pragma once

#include <array>
#include <compare>
#include <string_view>

#include "estimator/spec/words.h"

/// How Transformer Engine's modules are run: what arguments and environment change. A target says
/// which it is (TargetTraits::te_modules); estimator/te_program interprets it.
namespace planwright {

/// How products in 8 bits come to the scales of their operands: from the largest values of earlier
/// steps, or of each tensor, of blocks of 128, or of 32 elements of each row or column. Source:
/// NVIDIA/TransformerEngine transformer_engine/common/recipe/__init__.py @ v2.11.
enum class Fp8Recipe { none, delayed, tensorwise, blockwise, mxfp8 };
template <>
struct Words<Fp8Recipe> {
  static constexpr std::array<std::string_view, 5> kWords{"none", "delayed", "tensorwise",
                                                          "blockwise", "mxfp8"};
};

struct TeModules {
  bool deterministic = false;  ///< only kernels whose results are the same in every run
  bool sums_wgrad = true;      ///< a product adds a weight's gradient to the buffer by itself
  bool groups_experts = true;  ///< their products are one kernel; else one expert follows the other
  bool gathers_tokens =
      false;                ///< each rank of experts gets all tokens; else those for its experts
  bool gets_masks = false;  ///< a byte for each pair of tokens comes with a micro-batch
  Fp8Recipe fp8 = Fp8Recipe::none;  ///< of products, where the precision has them in 8 bits
  bool fp8_weights = false;         ///< their weights have no other copy than that in 8 bits

  auto operator<=>(const TeModules&) const = default;
};

}  // namespace planwright
