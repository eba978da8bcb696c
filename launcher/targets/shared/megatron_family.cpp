#include "launcher/targets/shared/megatron_family.h"

namespace planwright::targets {

std::optional<PrecisionRecipe> megatron_recipe(Precision precision) {
  using enum DType;
  switch (precision) {
    case Precision::fp32:
      return PrecisionRecipe{};
    case Precision::bf16:
      return PrecisionRecipe{bf16, bf16, fp32, fp32, fp32, {}};
    case Precision::fp16:
      return PrecisionRecipe{fp16, fp16, fp16, fp32, fp32, {}};
    default:
      return std::nullopt;
  }
}

std::int64_t megatron_padded_vocab(std::int64_t vocab, const Candidate& candidate) {
  const std::int64_t multiple = std::int64_t{128} * candidate.tp;
  return (vocab + multiple - 1) / multiple * multiple;
}

}  // namespace planwright::targets
