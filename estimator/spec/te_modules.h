#pragma once

#include <compare>

/// How Transformer Engine's modules are run: what arguments and environment change. A target says
/// which it is (TargetTraits::te_modules); estimator/te_program interprets it.
namespace planwright {

struct TeModules {
  bool deterministic = false;  ///< only kernels whose results are the same in every run
  bool sums_wgrad = true;      ///< a product adds a weight's gradient to the buffer by itself
  bool groups_experts = true;  ///< their products are one kernel; else one expert follows the other
  bool gathers_tokens =
      false;                ///< each rank of experts gets all tokens; else those for its experts
  bool gets_masks = false;  ///< a byte for each pair of tokens comes with a micro-batch

  auto operator<=>(const TeModules&) const = default;
};

}  // namespace planwright
